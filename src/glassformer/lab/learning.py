"""Synthetic tasks, small models, and training with the library's own step.

task = Task("reverse", kind="translator")
torch.manual_seed(seed)
model = small_model(task, n_heads=2)             # ModelSettings by name, like `build`
run = train(model, task, Plan(steps=200), seed)
run.steps_to(99), run.accuracy, greedy_decode(model, task.held_out()).exact_match
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.config import ModelSettings
from glassformer.data import tasks
from glassformer.data.batch import IGNORE, Batch, Examples
from glassformer.data.ragged import Ragged
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.search import SearchOptions, search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import TrainingError
from glassformer.lab.trials import model_device
from glassformer.model.build import build
from glassformer.model.stack import Stack
from glassformer.train.loss import smoothed_loss
from glassformer.train.optimizer import build_optimizers
from glassformer.train.schedule import factor
from glassformer.train.step import Objective, train_step

HELD_OUT = 10**6  # seed of the held-out examples; runs have the seeds from 0


@dataclass(frozen=True)
class Task:
    """A task of data/tasks.py in the form that one kind of model takes."""

    name: str = "reverse"
    kind: Literal["tagger", "translator"] = "tagger"
    symbols: int = 16
    lengths: tuple[int, int] = (2, 12)

    @property
    def vocabulary(self) -> int:
        return tasks.FIRST + self.symbols

    def examples(self, seed: int, first: int, count: int) -> Examples:
        """Return the examples `first` to `first + count` of the endless sequence of a seed."""
        made = [
            tasks.example(self.name, seed, i, self.symbols, self.lengths)
            for i in range(first, first + count)
        ]
        sources, labels = zip(*made, strict=True)
        if self.kind == "translator":
            labels = tuple([label for label in row if label != PAD] for row in labels)
        return Examples(self.kind, (Ragged.of(sources), Ragged.of(labels)))

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """Return the training batch of a step; examples never repeat."""
        return self.examples(seed, step * size, size).batch(np.arange(size))

    def held_out(self, size: int = 256) -> Batch:
        return self.batch(HELD_OUT, 0, size)


@dataclass(frozen=True)
class Plan:
    """Training settings of an experiment."""

    steps: int = 200
    batch: int = 32  # examples
    rate: float = 3e-3  # peak learning rate
    warmup: int = 0
    schedule: str = "constant"
    smoothing: float = 0.0
    clip: float = 1.0
    optimizer: str = "adamw"
    muon_rate: float = 0.02
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    validate_every: int = 25  # steps
    stop_at: float = inf  # percent of held-out labels correct, at which training ends


@dataclass
class TrainingRun:
    """Losses, gradient norms and held-out accuracies of a training run."""

    losses: list[float] = field(default_factory=list)  # per label, at each update
    norms: list[float] = field(default_factory=list)  # of the gradient before clipping
    accuracies: dict[int, float] = field(default_factory=dict)  # percent, by step
    diverged: bool = False  # the loss or its gradient became infinite or NaN

    @property
    def accuracy(self) -> float:
        """Accuracy at the last validation; 0 without any."""
        return next(reversed(self.accuracies.values()), 0.0)

    def steps_to(self, percent: float) -> float:
        """Return the step of the first validation with this accuracy, or infinity."""
        steps = (step for step, accuracy in self.accuracies.items() if accuracy >= percent)
        return float(next(steps, inf))


def small_model(task: Task, **changes: Any) -> nn.Module:
    """Build a model sized for the task, on the device of the run: two layers, no dropout.

    Like `build` it draws its weights from torch's global generator: set the seed first.
    """
    vocabulary = task.vocabulary
    settings = ModelSettings(
        kind=task.kind,
        vocab_size=vocabulary,
        n_classes=vocabulary,
        d_model=32,
        n_heads=2,
        d_ff=64,
        encoder_layers=2,
        decoder_layers=2,
        dropout=0.0,
    )
    return build(settings, **changes).to(model_device())


def train(
    model: nn.Module, task: Task, plan: Plan, seed: int, held_out: Batch | None = None
) -> TrainingRun:
    """Train on new examples at every step, on the device that the model is on.

    Divergence ends the run and is recorded, not raised.
    """
    objective = Objective(model, plan.smoothing)
    optimizers = build_optimizers(
        model, plan.optimizer, plan.rate, plan.muon_rate, plan.weight_decay, plan.betas
    )
    device = next(model.parameters()).device
    held_out = (task.held_out() if held_out is None else held_out).to(device)
    run = TrainingRun()
    for step in range(1, plan.steps + 1):
        batch = task.batch(seed, step, plan.batch).to(device)
        scale = factor(plan.schedule, step, plan.warmup, plan.steps)
        model.train()
        try:
            update = train_step(
                objective, optimizers, [batch], [seed * 1_000_003 + step], scale, plan.clip
            )
        except TrainingError:
            run.diverged = True
            break
        run.losses.append(update.loss)
        run.norms.append(update.gradient_norm)
        if step % plan.validate_every == 0 or step == plan.steps:
            run.accuracies[step] = accuracy(model, held_out)
            if run.accuracy >= plan.stop_at:
                break
    model.eval()
    return run


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch) -> float:
    """Return the percent of labels predicted correctly with teacher forcing."""
    model.eval()
    batch = batch.to(next(model.parameters()).device)
    features = cast(Any, model).features(*batch.inputs)
    labelled = batch.labels != IGNORE
    predicted = cast(Any, model).output(features[labelled]).argmax(-1)
    return 100 * float((predicted == batch.labels[labelled]).float().mean())


@torch.no_grad()
def loss(model: nn.Module, batch: Batch) -> float:
    """Return the loss per label with teacher forcing, without smoothing."""
    model.eval()
    batch = batch.to(next(model.parameters()).device)
    features = cast(Any, model).features(*batch.inputs)
    total, labels = smoothed_loss(features, cast(Any, model).output, batch.labels)
    return float(total) / labels


@dataclass(frozen=True)
class Outputs:
    """Decoded outputs of a model beside the references."""

    outputs: list[list[int]]
    references: list[list[int]]

    @property
    def exact_match(self) -> float:
        """Percent of outputs that equal their reference."""
        pairs = zip(self.outputs, self.references, strict=True)
        return 100 * sum(output == right for output, right in pairs) / len(self.references)


def greedy_decode(model: nn.Module, batch: Batch) -> Outputs:
    """Decode greedily with the library's search."""
    references = [[int(i) for i in row if i not in (IGNORE, EOS)] for row in batch.labels]
    options = SearchOptions(beam_size=1, max_length=max(map(len, references)) + 2)
    sources = [[int(i) for i in row if i != PAD] for row in batch.inputs[0]]
    found = search(TorchDecoder(cast(Any, model.eval())), sources, BOS, EOS, options)
    return Outputs([hypotheses[0].ids for hypotheses in found], references)


@contextmanager
def gradients(model: nn.Module, batch: Batch) -> Iterator[None]:
    """Give every parameter its gradient of the loss per label inside the block."""
    model.zero_grad()
    batch = batch.to(next(model.parameters()).device)
    total: Tensor = Objective(model, 0.0)(batch.labels, *batch.inputs)
    (total / batch.n_labels).backward()
    yield
    model.zero_grad()


def gradient_norms(model: nn.Module, batch: Batch) -> dict[str, list[float]]:
    """Return the gradient norm of each layer: {"encoder": [first, …, last], …}."""
    with gradients(model, batch):
        return {
            name: [_norm(layer) for layer in stack.layers]
            for name, stack in model.named_modules()
            if isinstance(stack, Stack)
        }


def _norm(module: nn.Module) -> float:
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return float(nn.utils.get_total_norm(gradients))
