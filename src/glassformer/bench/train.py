"""`bench train`: whole updates on batches of real lengths, beside peers, and the roof."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.bench.joeynmt import JoeyNMT
from glassformer.bench.model import OURS, ROOF, Shape, product_shapes, products_alone
from glassformer.bench.peers import MarianPeer, TorchPeer
from glassformer.bench.report import Report
from glassformer.callable_module import make_callable
from glassformer.config import preset
from glassformer.data.batch import IGNORE, Batch, Examples
from glassformer.data.batching import TokenBatches
from glassformer.data.prepare import Prepared
from glassformer.device import found, wait_for
from glassformer.errors import SettingsError
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick, best_of_rounds
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from glassformer.train.distributed import CPU
from glassformer.train.optimizer import build_optimizers
from glassformer.train.precision import Precision, precision_on, shorten_products
from glassformer.train.step import FULL, Objective, train_step

SHUFFLED = "shuffled"
RATE, CLIP = 1e-3, 1.0  # learning rate and gradient norm; speed does not depend on them
Timed = Callable[[], float]  # makes an update with each batch; returns the seconds it took


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement, and the settings of a batch."""

    models: tuple[str, ...] = ("tiny",)  # presets
    updates: int = 6  # per round
    rounds: int = 3
    batch_tokens: int = 4_096
    smoothing: float = 0.1
    dropout: float = 0.3
    device: torch.device = CPU
    joeynmt: Path | None = None  # interpreter of an environment with JoeyNMT

    @property
    def short(self) -> Precision | None:
        """The precision that `auto` is on the device, if that is a shorter one."""
        auto = precision_on(self.device, "auto")
        return auto if auto.short is not None else None

    @property
    def steps(self) -> int:
        on_cpu = self.device == CPU
        contenders = 4 + on_cpu + (self.joeynmt is not None)
        shorter = 3 + on_cpu if self.short is not None else 0
        return len(self.models) * (contenders + shorter) * (self.rounds + 1)


class Work(NamedTuple):
    """The batches of a round."""

    buckets: list[Batch]
    shuffled: list[Batch]

    def labels(self, contender: str) -> int:
        batches = self.shuffled if SHUFFLED in contender else self.buckets
        return sum(batch.n_labels for batch in batches)


@dataclass
class Field:
    """The contenders of one model, by name; those in a shorter type have a `suffix`."""

    fp32: dict[str, Timed] = field(default_factory=dict)
    short: dict[str, Timed] = field(default_factory=dict)
    suffix: str = ""


def bench_train(data: Prepared, plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    """Measure target tokens per second of whole updates."""
    if data.train.kind != "translator":
        raise SettingsError(
            f"The data is that of a {data.train.kind}.",
            "Training is measured on pairs: a source and a target.",
            "Name the recipe of a translator: --recipe multi30k.",
        )
    work = Work(bucketed_batches(data, plan), shuffled_batches(data, plan))
    vocabulary = data.settings.model.vocab_size
    tables: list[Table] = []
    ratios: dict[str, float] = {}
    for name in plan.models:
        with ExitStack() as stack:
            contenders = _contenders(name, data, plan, work, stack)
            where = f"lengths of {data.settings.data.name}, vocabulary {vocabulary:,}"
            table, ratios[name] = _measure(f"{name}, {where}", contenders, work, plan, tick)
        tables.append(table)
    notes = [
        "A whole update each: forward, smoothed loss, backward, clipping, fused AdamW.",
        "Shuffled batches hold as many sentences as ours on average, padded to the longest.",
        "Products alone: the matrix products of all linear layers, forward and backward.",
        "Peers in bf16 run under torch's autocast. A ratio is the best of ours by the best peer on "
        "our buckets, each in its better type.",
    ]
    return Report(command, tables, ratios, notes)


def _measure(
    what: str, contenders: Field, work: Work, plan: Plan, tick: Tick
) -> tuple[Table, float]:
    """Measure one model; return its table, and the speed of ours by that of the best peer."""
    short = {f"{n}{contenders.suffix}": run for n, run in contenders.short.items()}
    seconds = best_of_rounds(contenders.fp32 | short, plan.rounds, tick)
    speed = {name: work.labels(name) / s for name, s in seconds.items()}
    rows: list[Row] = []
    for suffix, group in (("", contenders.fp32), (contenders.suffix, contenders.short)):
        ours = speed[OURS + suffix] if group else 0.0
        for name in (one + suffix for one in group):
            of_roof = f"{speed[name] / speed[ROOF + suffix]:.0%}" if ROOF in group else "–"
            rows.append([name, round(speed[name]), of_roof, ours / speed[name]])
    best = {
        is_ours: max(v for n, v in speed.items() if n.startswith(OURS) == is_ours and _competes(n))
        for is_ours in (True, False)
    }
    title = f"Training: {what}, {plan.batch_tokens:,} tokens a batch, {_where(plan.device)}"
    columns = ["contender", "target tokens/s", "of products alone", "glassformer ÷ it"]
    return Table(title, columns, rows), best[True] / best[False]


def _competes(name: str) -> bool:
    return not name.startswith(ROOF) and SHUFFLED not in name


def _contenders(
    name: str,
    data: Prepared,
    plan: Plan,
    work: Work,
    stack: ExitStack,
) -> Field:
    buckets = work.buckets
    torch.manual_seed(0)
    vocabulary = data.settings.model.vocab_size
    changes = {"vocab_size": vocabulary, "residual": "post-norm", "dropout": plan.dropout}
    model = build(name, **changes).to(plan.device)
    assert isinstance(model, Transformer), "the presets that are measured are translators"
    longest = int(_examples(data).lengths.max()) + 1
    turn = partial(_turn, device=plan.device)
    shapes = [shape for batch in buckets for shape in _shapes(model, batch)]
    on_cpu = plan.device == CPU

    def peers(precision: Precision) -> dict[str, Timed]:
        update = partial(_plain_update, plan=plan, precision=precision)
        return {
            "nn.Transformer, our buckets": turn(update(TorchPeer(model, longest)), buckets),
            "Marian (sdpa), our buckets": turn(update(MarianPeer(model, longest)), buckets),
        }

    def roof(dtype: torch.dtype) -> dict[str, Timed]:
        return {ROOF: _clocked(products_alone(shapes, dtype=dtype))} if on_cpu else {}

    found = Field({OURS: turn(_our_update(deepcopy(model), plan), buckets)})
    plain = turn(_plain_update(TorchPeer(model, longest), plan), work.shuffled)
    found.fp32 |= {f"nn.Transformer, {SHUFFLED}": plain} | peers(FULL) | roof(torch.float32)
    if plan.joeynmt is not None:
        settings = preset(name, **changes)
        peer = JoeyNMT(plan.joeynmt, settings, buckets, plan.smoothing, RATE, CLIP)
        found.fp32["JoeyNMT, our buckets"] = stack.enter_context(peer)
    if plan.short is not None and plan.short.short is not None:
        found.suffix = f", {str(plan.short.short).removeprefix('torch.')}"
        ours = turn(_our_update(deepcopy(model), plan, plan.short), buckets)
        found.short = {OURS: ours} | peers(plan.short) | roof(plan.short.short)
    return found


def _shapes(model: Transformer, batch: Batch) -> Iterable[Shape]:
    """Return the products of a forward pass; the output's are only of the labels."""
    *inner, (_, width, vocabulary) = product_shapes(model, *batch.inputs)
    return [*inner, (batch.n_labels, width, vocabulary)]


def bucketed_batches(data: Prepared, plan: Plan) -> list[Batch]:
    """Return the first batches of an epoch, each of similar lengths."""
    examples = _examples(data)
    batches = TokenBatches(examples.lengths, plan.batch_tokens).epoch(0)
    return [examples.batch(indices).to(plan.device) for indices in batches[: plan.updates]]


def shuffled_batches(data: Prepared, plan: Plan) -> list[Batch]:
    """Return the batches of a plain loop over a shuffled data set."""
    examples = _examples(data)
    n_batches = len(TokenBatches(examples.lengths, plan.batch_tokens).epoch(0))
    order = np.random.default_rng(0).permutation(len(examples))
    parts = np.array_split(order, n_batches)[: plan.updates]
    return [examples.batch(part).to(plan.device) for part in parts]


def _examples(data: Prepared) -> Examples:
    """Return the examples of the recipe; of a mixture, those of its first epoch."""
    return data.train if isinstance(data.train, Examples) else data.train.epoch(0, 0)


def _where(device: torch.device) -> str:
    if device.type == "cpu":
        return f"{torch.get_num_threads()} threads"
    return dict(found()).get(str(device), str(device))


def _turn(update: Callable[[Batch], None], batches: list[Batch], device: torch.device) -> Timed:
    def run() -> None:
        for batch in batches:
            update(batch)
        wait_for(device)

    return _clocked(run)


def _clocked(run: Callable[[], object]) -> Timed:
    def timed() -> float:
        begin = perf_counter()
        run()
        return perf_counter() - begin

    return timed


def _our_update(
    model: Transformer, plan: Plan, precision: Precision = FULL
) -> Callable[[Batch], None]:
    if precision.products is not None:
        shorten_products(model, precision.products)
    objective = Objective(model, plan.smoothing, precision=precision)
    scaler = precision.scaler(plan.device)
    optimizers = build_optimizers(model, "adamw", RATE, RATE, 0.01, (0.9, 0.98))

    def update(batch: Batch) -> None:
        train_step(objective, optimizers, [batch], [0], rate_factor=1.0, clip=CLIP, scaler=scaler)

    return update


def _plain_update(
    peer: nn.Module, plan: Plan, precision: Precision = FULL
) -> Callable[[Batch], None]:
    """An update as plain loops have it; under autocast if the precision is a shorter one."""
    peer.to(plan.device)
    optimizer = torch.optim.AdamW(peer.parameters(), RATE, (0.9, 0.98), fused=True)
    short = precision.short

    def update(batch: Batch) -> None:
        peer.train()
        with torch.autocast(plan.device.type, short, enabled=short is not None):
            logits = peer(*batch.inputs).flatten(0, 1)
            loss = F.cross_entropy(
                logits,
                batch.labels.flatten(),
                ignore_index=IGNORE,
                label_smoothing=plan.smoothing,
            )
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()

    return update


make_callable(__name__, "glassformer.api.bench", "train")
