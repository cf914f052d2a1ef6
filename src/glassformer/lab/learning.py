"""What experiments share: made-up tasks, small models, and the library's own step to train them.

task = Task("reverse", kind="translator")
torch.manual_seed(seed)
model = small(task, n_heads=2)                   # ModelSettings by name, like `build`
learned = learn(model, task, Plan(steps=200), seed)
learned.steps_to(99), learned.accuracy, greedy_accuracy(model, task)
"""

from collections.abc import Callable, Iterator
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
from glassformer.model.build import build
from glassformer.model.stack import Stack
from glassformer.train.loss import smoothed_loss
from glassformer.train.optimizer import build_optimizers
from glassformer.train.schedule import factor
from glassformer.train.step import Objective, train_step

HELD_OUT = 10**6  # the seed of examples that no run trains on: runs are numbered from 0


@dataclass(frozen=True)
class Task:
    """A task of data/tasks.py, as a model of one kind is asked it."""

    name: str = "reverse"
    kind: Literal["tagger", "translator"] = "tagger"
    symbols: int = 16
    lengths: tuple[int, int] = (2, 12)

    @property
    def vocabulary(self) -> int:
        return tasks.FIRST + self.symbols

    def examples(self, seed: int, first: int, count: int) -> Examples:
        """Examples number `first` to `first + count` of the endless row of a seed."""
        made = [
            tasks.example(self.name, seed, i, self.symbols, self.lengths)
            for i in range(first, first + count)
        ]
        sources, labels = zip(*made, strict=True)
        if self.kind == "translator":
            labels = tuple([label for label in row if label != PAD] for row in labels)
        return Examples(self.kind, (Ragged.of(sources), Ragged.of(labels)))

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """What is trained on at a step: no example comes twice."""
        return self.examples(seed, step * size, size).batch(np.arange(size))

    def held_out(self, size: int = 256) -> Batch:
        return self.batch(HELD_OUT, 0, size)


@dataclass(frozen=True)
class Plan:
    """How a model of the lab is trained."""

    steps: int = 200
    batch: int = 32  # examples
    rate: float = 3e-3
    warmup: int = 0
    schedule: str = "constant"
    smoothing: float = 0.0
    clip: float = 1.0
    optimizer: str = "adamw"
    muon_rate: float = 0.02
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    look_every: int = 25  # steps from one look at the held-out examples to the next
    enough: float = inf  # percent of held-out labels right: training ends when a look finds it


@dataclass
class Learned:
    """What came of training."""

    losses: list[float] = field(default_factory=list)  # per label, at each update
    norms: list[float] = field(default_factory=list)  # of the gradient, before it is clipped
    looks: dict[int, float] = field(default_factory=dict)  # step: percent of held-out labels right
    diverged: bool = False  # the loss or its gradient was no longer a number

    @property
    def accuracy(self) -> float:
        """At the last look; 0 if none came."""
        return next(reversed(self.looks.values()), 0.0)

    def steps_to(self, percent: float) -> float:
        """Updates until a look found this accuracy; infinite if none did."""
        return next((float(step) for step, found in self.looks.items() if found >= percent), inf)


def small(task: Task, **changes: Any) -> nn.Module:
    """A model sized for the task and for seconds: two layers a stack, no dropout.

    Like `build` it draws its weights from torch's generator: set the seed before.
    """
    return build(settings(task, **changes))


def settings(task: Task, **changes: Any) -> ModelSettings:
    """The settings of `small`, for what is put together by hand."""
    vocabulary = task.vocabulary
    sizes = ModelSettings(
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
    return sizes.replace(**changes)


Change = Callable[[Batch], Batch]


def learn(
    model: nn.Module,
    task: Task,
    plan: Plan,
    seed: int,
    change: Change | None = None,
    held_out: Batch | None = None,
) -> Learned:
    """Train on fresh examples at every step. Divergence ends it and is told, not raised.

    `change` is done to every batch, held-out ones too: other inputs, or masks behind them.
    """
    change = change or (lambda batch: batch)
    objective = Objective(model, plan.smoothing)
    optimizers = build_optimizers(
        model, plan.optimizer, plan.rate, plan.muon_rate, plan.weight_decay, plan.betas
    )
    asked = change(task.held_out() if held_out is None else held_out)
    learned = Learned()
    for step in range(1, plan.steps + 1):
        batch = change(task.batch(seed, step, plan.batch))
        scale = factor(plan.schedule, step, plan.warmup, plan.steps)
        model.train()
        try:
            update = train_step(
                objective, optimizers, [batch], [seed * 1_000_003 + step], scale, plan.clip
            )
        except TrainingError:
            learned.diverged = True
            break
        learned.losses.append(update.loss)
        learned.norms.append(update.gradient_norm)
        if step % plan.look_every == 0 or step == plan.steps:
            learned.looks[step] = accuracy(model, asked)
            if learned.accuracy >= plan.enough:
                break
    model.eval()
    return learned


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch) -> float:
    """Percent of the labels that the model says, given the true past."""
    model.eval()
    features = cast(Any, model).features(*batch.inputs)
    asked = batch.labels != IGNORE
    said = cast(Any, model).output(features[asked]).argmax(-1)
    return 100 * float((said == batch.labels[asked]).float().mean())


@torch.no_grad()
def loss(model: nn.Module, batch: Batch) -> float:
    """Per label, without smoothing, given the true past."""
    model.eval()
    features = cast(Any, model).features(*batch.inputs)
    total, labels = smoothed_loss(features, cast(Any, model).output, batch.labels)
    return float(total) / labels


@dataclass(frozen=True)
class Said:
    """Answers that a model made by itself, beside the right ones."""

    answers: list[list[int]]
    right: list[list[int]]

    @property
    def sequences(self) -> float:
        """Percent of the answers that are right from beginning to end."""
        pairs = zip(self.answers, self.right, strict=True)
        return 100 * sum(answer == right for answer, right in pairs) / len(self.right)

    @property
    def tokens(self) -> float:
        """Percent of the right tokens that stand in their place."""
        pairs = zip(self.answers, self.right, strict=True)
        hits = sum(a == b for answer, right in pairs for a, b in zip(answer, right, strict=False))
        return 100 * hits / sum(map(len, self.right))


def say(model: nn.Module, batch: Batch) -> Said:
    """Greedy answers of a translator, through the search that everything decodes with."""
    right = [[int(i) for i in row if i not in (IGNORE, EOS)] for row in batch.labels]
    options = SearchOptions(beam_size=1, max_length=max(map(len, right)) + 2)
    sources = [[int(i) for i in row if i != PAD] for row in batch.inputs[0]]
    found = search(TorchDecoder(cast(Any, model.eval())), sources, BOS, EOS, options)
    return Said([hypotheses[0].ids for hypotheses in found], right)


def greedy_accuracy(model: nn.Module, task: Task, size: int = 256) -> float:
    """Percent of held-out examples that a translator answers without a mistake."""
    return say(model, task.held_out(size)).sequences


@contextmanager
def gradients(model: nn.Module, batch: Batch) -> Iterator[None]:
    """Inside the block, every parameter has its gradient of the loss per label."""
    model.zero_grad()
    total: Tensor = Objective(model, 0.0)(batch.labels, *batch.inputs)
    (total / batch.n_labels).backward()
    yield
    model.zero_grad()


def gradient_norms(model: nn.Module, batch: Batch) -> dict[str, list[float]]:
    """Layer by layer: {"encoder": [first, …, last], …}."""
    with gradients(model, batch):
        return {
            name: [_norm(layer) for layer in stack.layers]
            for name, stack in model.named_modules()
            if isinstance(stack, Stack)
        }


def _norm(module: nn.Module) -> float:
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return float(nn.utils.get_total_norm(gradients))
