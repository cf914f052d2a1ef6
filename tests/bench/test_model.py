"""`bench model` measures what it says, on contenders that compute the same thing."""

import pytest
import torch

from glassformer.bench.model import OURS, Plan, bench_model, check_same_logits, product_shapes
from glassformer.bench.peers import MarianPeer, TorchPeer
from glassformer.model.build import build
from glassformer.model.describe import describe
from glassformer.model.transformer import Transformer


@pytest.fixture
def model() -> Transformer:
    model = build("tiny", residual="post-norm", vocab_size=50, d_model=16, d_ff=24)
    assert isinstance(model, Transformer)
    return model


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    source, target = torch.randint(1, 50, (2, 3, 6)).unbind()
    source[1, 4:] = 0
    return source, target


def test_the_peers_give_our_logits_on_padded_batches(
    model: Transformer, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    peers = {OURS: model, "torch": TorchPeer(model, 6), "marian": MarianPeer(model, 6)}
    check_same_logits(peers, *batch)
    with torch.no_grad():
        model.output.weight.add_(1.0)
    with pytest.raises(AssertionError):
        check_same_logits(peers, *batch)


def test_the_peers_apply_dropout_at_the_same_places(
    model: Transformer, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    def dropped(contender: torch.nn.Module) -> int:
        """Calls of dropout with p > 0 while training, by any means."""
        from torch.utils._python_dispatch import TorchDispatchMode

        class Count(TorchDispatchMode):
            calls = 0

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
                name = func.overloadpacket.__name__
                Count.calls += name in ("bernoulli_", "random_", "native_dropout")
                return func(*args, **(kwargs or {}))

        with Count():
            contender.train()(*batch)
        return Count.calls

    assert dropped(TorchPeer(model, 6)) == dropped(MarianPeer(model, 6)) == dropped(model) > 0


def test_the_roof_has_the_matrix_products_of_the_model(
    model: Transformer, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    tokens = batch[0].numel()
    flops = sum(2 * rows * n * m for rows, n, m in product_shapes(model, *batch))
    linear = sum(part.flops for part in describe(model).parts if "QK" not in part.name)
    assert flops == tokens * linear


def test_the_quick_plan_gives_both_tables() -> None:
    ticks: list[int] = []
    plan = Plan.quick()
    report = bench_model(plan, "command", lambda: ticks.append(1))
    whole, attention = report.tables
    assert len(ticks) == plan.steps
    assert set(report.ratios) == {"forward", "forward+backward"}
    assert len(whole.rows) == 8
    assert [row[0] for row in attention.rows] == [*plan.attention_lengths, "grows as n^"]
    memory_of_readable, memory_of_fused = attention.rows[-1][3:]
    assert memory_of_readable > 1.5 > memory_of_fused
