"""`bench train`: whole updates on batches of real lengths, beside peers in plain loops."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.bench.peers import MarianPeer, TorchPeer
from glassformer.bench.report import Report
from glassformer.callable_module import make_callable
from glassformer.data.batch import IGNORE, Batch, Examples
from glassformer.data.batching import TokenBatches
from glassformer.data.prepare import Prepared
from glassformer.device import found, wait_for
from glassformer.errors import SettingsError
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Run, Tick, best_seconds
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from glassformer.train.distributed import CPU
from glassformer.train.optimizer import build_optimizers
from glassformer.train.precision import Precision, precision_on, shorten_products
from glassformer.train.step import FULL, Objective, train_step

OURS, SHORT = "glassformer", "glassformer, products in bf16"  # fp16 on older GPUs
RATE, CLIP = 1e-3, 1.0  # learning rate and gradient norm; speed does not depend on them


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement, and the settings of a batch."""

    updates: int = 6  # per round
    rounds: int = 3
    batch_tokens: int = 4_096
    smoothing: float = 0.1
    dropout: float = 0.3
    device: torch.device = CPU

    @property
    def short(self) -> Precision:
        """The precision that `auto` is on the device."""
        return precision_on(self.device, "auto")

    @property
    def steps(self) -> int:
        contenders = 4 if self.short.short is None else 5
        return contenders * (self.rounds + 1)


def bench_train(data: Prepared, plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    """Measure target tokens per second of whole updates."""
    if data.train.kind != "translator":
        raise SettingsError(
            f"The data is that of a {data.train.kind}.",
            "Training is measured on pairs: a source and a target.",
            "Name the recipe of a translator: --recipe multi30k.",
        )
    torch.manual_seed(0)
    vocabulary = data.settings.model.vocab_size
    model = build("tiny", vocab_size=vocabulary, residual="post-norm", dropout=plan.dropout)
    model.to(plan.device)
    assert isinstance(model, Transformer), "tiny is a translator"
    longest = int(_examples(data).lengths.max()) + 1
    buckets, shuffled = bucketed_batches(data, plan), shuffled_batches(data, plan)
    contenders = {
        OURS: (_our_update(model, plan), buckets),
        "nn.Transformer, shuffled": (_plain_update(TorchPeer(model, longest), plan), shuffled),
        "nn.Transformer, our buckets": (_plain_update(TorchPeer(model, longest), plan), buckets),
        "Marian (sdpa), our buckets": (_plain_update(MarianPeer(model, longest), plan), buckets),
    }
    if plan.short.short is not None:
        contenders[SHORT] = _our_update(deepcopy(model), plan, plan.short), buckets
    turns = {n: _turn(*c, plan.device) for n, c in contenders.items()}
    seconds = best_seconds(turns, plan.rounds, tick)
    speed = {
        name: sum(batch.n_labels for batch in batches) / seconds[name]
        for name, (_, batches) in contenders.items()
    }
    rows: list[Row] = [[name, round(v), speed[OURS] / v] for name, v in speed.items()]
    table = Table(
        f"Training: tiny, {plan.batch_tokens:,} tokens a batch, lengths of "
        f"{data.settings.data.name}, vocabulary {vocabulary:,}, {_where(plan.device)}",
        ["contender", "target tokens/s", "glassformer ÷ it"],
        rows,
    )
    notes = [
        "A whole update each: forward, smoothed loss, backward, clipping, fused AdamW.",
        "Shuffled batches hold as many sentences as ours on average, padded to the longest.",
    ]
    ratios = {name: speed[OURS] / v for name, v in speed.items() if name not in (OURS, SHORT)}
    return Report(command, [table], ratios, notes)


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


def _turn(update: Callable[[Batch], None], batches: list[Batch], device: torch.device) -> Run:
    def run() -> None:
        for batch in batches:
            update(batch)
        wait_for(device)

    return run


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


def _plain_update(peer: nn.Module, plan: Plan) -> Callable[[Batch], None]:
    peer.to(plan.device)
    optimizer = torch.optim.AdamW(peer.parameters(), RATE, (0.9, 0.98), fused=True)

    def update(batch: Batch) -> None:
        peer.train()
        logits = peer(*batch.inputs).flatten(0, 1)
        smoothing = plan.smoothing
        F.cross_entropy(
            logits, batch.labels.flatten(), ignore_index=IGNORE, label_smoothing=smoothing
        ).backward()
        nn.utils.clip_grad_norm_(peer.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()

    return update


make_callable(__name__, "glassformer.api.bench", "train")
