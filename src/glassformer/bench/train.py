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
from glassformer.data.batch import IGNORE, Batch, Examples
from glassformer.data.batching import TokenBatches
from glassformer.data.prepare import Prepared
from glassformer.errors import SettingsError
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Run, Tick, best_seconds
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from glassformer.train.optimizer import build_optimizers
from glassformer.train.precision import products_of, shorten_products
from glassformer.train.step import Objective, train_step

OURS, SHORT = "glassformer", "glassformer, products in bf16"
RATE, CLIP = 1e-3, 1.0  # learning rate and gradient norm; speed does not depend on them


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement, and the settings of a batch."""

    updates: int = 6  # per round
    rounds: int = 3
    batch_tokens: int = 4_096
    smoothing: float = 0.1
    dropout: float = 0.3

    @property
    def steps(self) -> int:
        contenders = 4 if products_of("auto") is None else 5
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
    assert isinstance(model, Transformer), "tiny is a translator"
    longest = int(_examples(data).lengths.max()) + 1
    buckets, shuffled = bucketed_batches(data, plan), shuffled_batches(data, plan)
    contenders = {
        OURS: (_our_update(model, plan), buckets),
        "nn.Transformer, shuffled": (_plain_update(TorchPeer(model, longest), plan), shuffled),
        "nn.Transformer, our buckets": (_plain_update(TorchPeer(model, longest), plan), buckets),
        "Marian (sdpa), our buckets": (_plain_update(MarianPeer(model, longest), plan), buckets),
    }
    if products := products_of("auto"):
        contenders[SHORT] = _our_update(deepcopy(model), plan, products), buckets
    seconds = best_seconds({n: _turn(*c) for n, c in contenders.items()}, plan.rounds, tick)
    speed = {
        name: sum(batch.n_labels for batch in batches) / seconds[name]
        for name, (_, batches) in contenders.items()
    }
    rows: list[Row] = [[name, round(v), speed[OURS] / v] for name, v in speed.items()]
    table = Table(
        f"Training: tiny, {plan.batch_tokens:,} tokens a batch, lengths of "
        f"{data.settings.data.name}, vocabulary {vocabulary:,}, {torch.get_num_threads()} threads",
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
    return [examples.batch(indices) for indices in batches[: plan.updates]]


def shuffled_batches(data: Prepared, plan: Plan) -> list[Batch]:
    """Return the batches of a plain loop over a shuffled data set."""
    examples = _examples(data)
    n_batches = len(TokenBatches(examples.lengths, plan.batch_tokens).epoch(0))
    order = np.random.default_rng(0).permutation(len(examples))
    return [examples.batch(part) for part in np.array_split(order, n_batches)[: plan.updates]]


def _examples(data: Prepared) -> Examples:
    """Return the examples of the recipe; of a mixture, those of its first epoch."""
    return data.train if isinstance(data.train, Examples) else data.train.epoch(0, 0)


def _turn(update: Callable[[Batch], None], batches: list[Batch]) -> Run:
    def run() -> None:
        for batch in batches:
            update(batch)

    return run


def _our_update(
    model: Transformer, plan: Plan, products: torch.dtype | None = None
) -> Callable[[Batch], None]:
    if products is not None:
        shorten_products(model, products)
    objective = Objective(model, plan.smoothing)
    optimizers = build_optimizers(model, "adamw", RATE, RATE, 0.01, (0.9, 0.98))

    def update(batch: Batch) -> None:
        train_step(objective, optimizers, [batch], [0], rate_factor=1.0, clip=CLIP)

    return update


def _plain_update(peer: nn.Module, plan: Plan) -> Callable[[Batch], None]:
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
