"""A training run: its parts, where it stands, and when it ends."""

from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler

from glassformer.checkpoint import RunFolder
from glassformer.config import RunSettings
from glassformer.data.batching import TokenBatches
from glassformer.data.prepare import Prepared
from glassformer.ngrams import NgramVotes
from glassformer.train.distributed import World
from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.precision import Precision
from glassformer.train.state import MovingAverage, Position


@dataclass
class Run:
    """Everything that an update or a validation reads or changes."""

    settings: RunSettings
    data: Prepared
    folder: RunFolder
    world: World
    model: Any
    objective: nn.Module
    optimizers: list[torch.optim.Optimizer]
    stopping: EarlyStopping
    average: MovingAverage | None
    precision: Precision
    scaler: GradScaler | None  # of the loss, in fp16
    position: Position = field(default_factory=Position)
    signal: int | None = None  # that ended it
    votes: NgramVotes | None = None  # ensemble member beside the encoder of a classifier

    @cached_property
    def max_steps(self) -> int:
        """The number of the last update: train.max_steps, or the end of train.epochs."""
        s, data = self.settings.train, self.settings.data
        if s.epochs is None:
            return s.max_steps
        lengths = self.data.train.epoch(s.seed, 0, 0.0).lengths
        batches = len(TokenBatches(lengths, data.batch_tokens, s.seed).epoch(0))
        return min(s.max_steps, max(1, s.epochs * (batches // (s.accumulate * self.world.size))))


def ending(run: Run) -> str | None:
    """Return why the run is over, or None."""
    s, at = run.settings.train, run.position
    if at.step >= run.max_steps:
        by_epochs = run.max_steps < s.max_steps
        return f"{s.epochs} epochs" if by_epochs else f"{s.max_steps:,} updates"
    if s.max_minutes is not None and run.world.any(at.seconds >= 60 * s.max_minutes):
        return f"{s.max_minutes:g} minutes"
    if s.target is not None and run.stopping.reached(s.target):
        return f"{s.metric} {s.target:g} reached"
    if run.stopping.should_stop:
        return f"no better {s.metric} in {s.patience} validations"
    return None


def last_step(run: Run) -> int:
    """Return the update that a falling schedule ends with: the last by number, or by time.

    The last by time is estimated from the speed so far. The learning rates then follow the clock,
    and no two runs are the same to the bit. Every process must call it.
    """
    s, at, world = run.settings.train, run.position, run.world
    if s.max_minutes is None or at.step == 0:
        return run.max_steps
    (seconds,) = world.sum(at.seconds if world.leads else 0.0)  # one clock for all processes
    return ceil(min(run.max_steps, at.step * 60 * s.max_minutes / seconds))


def warmup_updates(run: Run, last: int) -> int:
    """Return the number of warm-up updates: train.warmup, or a share of the run."""
    s = run.settings.train
    return s.warmup if s.warmup_share is None else ceil(s.warmup_share * last)
