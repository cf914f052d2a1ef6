"""`bench model`: the torch model beside nn.Transformer and Marian; attention against length."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.bench.peers import MarianPeer, TorchPeer
from glassformer.bench.report import Report
from glassformer.callable_module import make_callable
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Run, Tick, best_seconds, exponent, peak_bytes
from glassformer.model.attention import fused_attention, scaled_dot_product_attention
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

OURS, ROOF = "glassformer", "products alone"
Shape = tuple[int, int, int]  # rows, inputs and outputs of a product


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement; the defaults are those of the published figures."""

    preset: str = "vaswani2017-base"
    batch: int = 64
    length: int = 24
    rounds: int = 7
    attention_lengths: tuple[int, ...] = (256, 512, 1_024, 2_048, 4_096, 8_192)
    attention_rounds: int = 3
    heads: int = 8
    d_k: int = 64

    @classmethod
    def quick(cls) -> "Plan":
        """Return the same measurements in seconds: for tests, not for figures."""
        return cls("tiny", 4, 6, 1, (64, 128, 256), 1, 2, 16)

    @property
    def steps(self) -> int:
        return 2 * 4 * (self.rounds + 1) + len(self.attention_lengths) * (
            2 * (self.attention_rounds + 1) + 2
        )


def bench_model(plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    torch.manual_seed(0)
    model = build(plan.preset, residual="post-norm")
    assert isinstance(model, Transformer), "the presets that are measured are translators"
    contenders = {
        OURS: model,
        "nn.Transformer": TorchPeer(model, plan.length),
        "Marian (sdpa)": MarianPeer(model, plan.length),
    }
    vocab = model.output.out_features
    source, target, gold = torch.randint(4, vocab, (3, plan.batch, plan.length)).unbind()
    check_same_logits(contenders, source, target)
    products = product_shapes(model, source, target)

    rows: list[Row] = []
    ratios: dict[str, float] = {}
    for mode, make in (("forward", _forward), ("forward+backward", _step)):
        runs = {
            name: make(contender, source, target, gold) for name, contender in contenders.items()
        }
        runs[ROOF] = products_alone(products, backward=make is _step)
        seconds = best_seconds(runs, plan.rounds, tick)
        ratios[mode] = min(seconds[peer] for peer in contenders if peer != OURS) / seconds[OURS]
        rows += [
            [mode, name, round(target.numel() / s), f"{seconds[ROOF] / s:.0%}", s / seconds[OURS]]
            for name, s in seconds.items()
        ]
    shape = f"{plan.preset}, {plan.batch}×{plan.length} tokens, fp32"
    columns = ["pass", "contender", "target tokens/s", "of the roof", "glassformer ÷ it"]
    whole = Table(f"Whole model: {shape}, {torch.get_num_threads()} threads", columns, rows)
    notes = [
        "All contenders hold the same weights, give the same logits (checked) and drop out at the "
        "same places; the loss is F.cross_entropy.",
        "The roof is the matrix products of the linear layers alone, in the same rounds.",
    ]
    return Report(command, [whole, attention_table(plan, tick)], ratios, notes)


@torch.no_grad()
def check_same_logits(contenders: dict[str, nn.Module], source: Tensor, target: Tensor) -> None:
    """Check that all contenders give the same logits."""
    for contender in contenders.values():
        contender.eval()
    expected = contenders[OURS](source, target)
    for contender in contenders.values():
        torch.testing.assert_close(contender(source, target), expected, rtol=1e-3, atol=1e-3)


def product_shapes(model: Transformer, source: Tensor, target: Tensor) -> list[Shape]:
    """Return the shape of every linear layer's product in one forward pass."""
    shapes: list[Shape] = []

    def note(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        shapes.append((output.numel() // output.size(-1), args[0].size(-1), output.size(-1)))

    linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
    hooks = [linear.register_forward_hook(note) for linear in linears]
    with torch.no_grad():
        model(source, target)
    for hook in hooks:
        hook.remove()
    return shapes


def _forward(model: nn.Module, source: Tensor, target: Tensor, gold: Tensor) -> Run:
    def run() -> None:
        model.eval()
        with torch.no_grad():
            model(source, target)

    return run


def _step(model: nn.Module, source: Tensor, target: Tensor, gold: Tensor) -> Run:
    def run() -> None:
        model.train()
        model.zero_grad()
        logits = model(source, target)
        F.cross_entropy(logits.flatten(0, 1), gold.flatten()).backward()

    return run


def products_alone(
    shapes: Sequence[Shape], backward: bool = True, dtype: torch.dtype = torch.float32
) -> Run:
    """Compute y = x Wᵀ, and backward dx = dy W and dW = dyᵀ x, into allocated memory."""
    sides = [(rows * n, m * n, rows * m) for rows, n, m in shapes]
    sizes = [max(of_one) for of_one in zip(*sides, strict=True)]
    operands = [torch.randn(size).to(dtype) for size in sizes]  # of x, W, dy; every product's
    results = [torch.empty(size, dtype=dtype) for size in sizes]  # dx, dW, y

    def run() -> None:
        for rows, n, m in shapes:
            shaped = ((rows, n), (m, n), (rows, m))
            x, w, dy = (t[: i * j].view(i, j) for t, (i, j) in zip(operands, shaped, strict=True))
            dx, dw, y = (t[: i * j].view(i, j) for t, (i, j) in zip(results, shaped, strict=True))
            torch.mm(x, w.t(), out=y)
            if backward:
                torch.mm(dy, w, out=dx)
                torch.mm(dy.t(), x, out=dw)

    return run


def attention_table(plan: Plan, tick: Tick) -> Table:
    """Tabulate time and memory of the two kernels by length, and the exponents of their growth."""
    kernels = {"readable": scaled_dot_product_attention, "fused": fused_attention}
    costs: list[list[float]] = []  # per length: milliseconds of each kernel, then MiB of each
    for n in plan.attention_lengths:
        q, k, v = torch.randn(3, 1, plan.heads, n, plan.d_k).unbind()
        runs: dict[str, Run] = {name: partial(f, q, k, v) for name, f in kernels.items()}
        seconds = best_seconds(runs, plan.attention_rounds, tick)
        costs.append([s * 1e3 for s in seconds.values()])
        for run in runs.values():
            costs[-1].append(peak_bytes(run) / 2**20)
            tick()
    lengths = plan.attention_lengths
    rows: list[Row] = [[n, *cost] for n, cost in zip(lengths, costs, strict=True)]
    rows.append(
        ["grows as n^", *(exponent(lengths, column) for column in zip(*costs, strict=True))]
    )
    columns = ["n", "readable ms", "fused ms", "readable MiB", "fused MiB"]
    shape = f"{plan.heads} heads of {plan.d_k}, batch 1, fp32"
    return Table(f"Attention against length: {shape}", columns, rows)


make_callable(__name__, "glassformer.api.bench", "model")
