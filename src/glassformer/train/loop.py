"""The training loop: start or resume a run, update, validate, save, stop for a reason."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from math import ceil
from pathlib import Path
from signal import SIGTERM
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.amp import GradScaler

from glassformer.checkpoint import (
    Checkpoint,
    RunFolder,
    adopt_weights,
    as_arrays,
    set_weights,
    weights_of,
)
from glassformer.config import RunSettings, TrainSettings
from glassformer.data.batch import Batch, Examples, prefetch
from glassformer.data.batching import TokenBatches, draw_seed
from glassformer.data.prepare import Prepared, prepare
from glassformer.errors import SettingsError, TrainingError
from glassformer.model.build import build
from glassformer.ngrams import NgramVotes, without_votes
from glassformer.train.distributed import World, spread, whole
from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.gpu import gpu_record, kernels
from glassformer.train.log import Log, Record
from glassformer.train.optimizer import build_optimizers
from glassformer.train.precision import Precision, precision_on, shorten_products
from glassformer.train.resume import check_origin, check_same_place, check_same_run, origin
from glassformer.train.schedule import factor
from glassformer.train.signals import Signals, StopRequested, stop_signals
from glassformer.train.state import MovingAverage, Position, capture, restore
from glassformer.train.step import Objective, Update, train_step
from glassformer.train.validate import Evaluate, validate
from glassformer.train.votes import fit_votes

Report = Callable[[Record], None]


@dataclass
class Run:
    """Everything that an update or a validation touches."""

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
        """The last update by number: of train.max_steps, or of train.epochs."""
        s, data = self.settings.train, self.settings.data
        if s.epochs is None:
            return s.max_steps
        lengths = self.data.train.epoch(s.seed, 0, 0.0).lengths
        batches = len(TokenBatches(lengths, data.batch_tokens, s.seed).epoch(0))
        return min(s.max_steps, max(1, s.epochs * (batches // (s.accumulate * self.world.size))))


def prepared(settings: RunSettings, folder: Path | None = None) -> Prepared:
    """Prepare the data of a run, with the tokenizers of `train.start_from` if it has one.

    A run in `folder` that is resumed keeps its own tokenizers, whatever text it now reads.
    """
    before = origin(settings) if folder is None else RunFolder(folder).newest(lambda notice: None)
    return prepare(settings, settings.train.threads, before.tokenizers if before else None)


def start(
    data: Prepared, folder: Path, world: World, resume: bool, notice: Callable[[str], None]
) -> Run:
    """A run at its beginning, or where its newest whole checkpoint left it."""
    settings, s = data.settings, data.settings.train
    precision = precision_on(world.device, s.precision)
    check_spreading(s, precision)
    torch.set_num_threads(s.threads)
    torch.manual_seed(s.seed)
    model = build(settings.model)
    saved = RunFolder(folder).newest(notice) if resume else None
    if saved is not None:
        check_same_place(saved, world)
        check_same_run(saved, data)
        set_weights(model, without_votes(saved.weights))
    else:
        if before := origin(settings):
            check_origin(before, data)
            same_answers = before.settings.data.labels == settings.data.labels
            adopt_weights(model, before.weights, same_answers)
    model.to(world.device)  # from here on: what was counted or read is on the CPU
    if precision.products is not None:
        shorten_products(model, precision.products)
    own = Objective(model, s.label_smoothing, s.r_drop, s.compile, precision)
    objective = spread(own, world, s.fully_shard)
    rates, betas = (s.learning_rate, s.muon_rate), (s.beta1, s.beta2)
    optimizers = build_optimizers(
        model, s.optimizer, *rates, s.weight_decay, betas, precision.short
    )
    average = MovingAverage(model, s.ema) if s.ema else None
    stopping = EarlyStopping(s.metric, s.patience)
    place = RunFolder(folder)
    scaler = precision.scaler(world.device)
    votes = votes_of(saved, data, notice) if settings.model.ngrams else None
    run = Run(
        settings, data, place, world, model, objective, optimizers, stopping, average, precision,
        scaler, votes=votes,
    )  # fmt: skip
    if saved is not None and saved.training is not None:
        run.position = restore(saved.training, model, optimizers, scaler)
        run.stopping.take_up(**saved.training.values["stopping"])
    return run


def check_spreading(s: TrainSettings, precision: Precision) -> None:
    """Refuse what cannot be done with weights of which each process holds a share."""
    scaled = precision.autocast is torch.float16
    if not s.fully_shard or not (scaled or s.optimizer == "muon"):
        return
    if scaled:
        name, why = "train.precision = 'fp16'", "Each process would scale its loss by another rule."
        remedy = "Set train.precision = 'bf16'"
    else:
        name = "train.optimizer = 'muon'"
        why = "Muon orthogonalises whole matrices, which no process then holds."
        remedy = "Set train.optimizer = 'adamw'"
    raise SettingsError(
        f"train.fully_shard = true does not go with {name}.",
        why,
        f"{remedy}, or leave train.fully_shard out.",
    )


def votes_of(saved: Checkpoint | None, data: Prepared, notice: Callable[[str], None]) -> NgramVotes:
    """The n-gram votes of a classifier: as saved, or fitted to the training text."""
    settings = data.settings.model
    if saved is not None:
        return NgramVotes.of(settings, saved.weights)
    notice(f"votes of n-grams of up to {settings.ngrams} words are being counted")
    assert isinstance(data.train, Examples), "a mixture is not for classifiers"
    return fit_votes(settings, data.train, data.tokenizers.get("joint"))


def train(run: Run, evaluate: Evaluate | None = None, report: Report = lambda record: None) -> str:
    """Update until there is a reason to stop, and give it.

    `evaluate` scores what the model says (BLEU); of itself the loop knows loss and accuracy.
    `report` is told every record that goes into the log.
    """
    s, at, world = run.settings.train, run.position, run.world
    tell = Log(run.folder.path, at.step, s.tensorboard, report).write if world.leads else report
    meter = Meter(at)
    chosen = kernels(world.device, run.precision.tf32, s.deterministic)
    with stop_signals() as signals, chosen:
        if at.unvalidated and (reason := conclude(run, evaluate, tell, signals)):
            return reason
        for batches in reading(run):
            if reason := ending(run):
                return reason
            last = last_step(run)
            at.step += 1
            rate = factor(s.schedule, at.step, warmup_updates(run, last), last, s.decay_share)
            seeds = (draw_seed(s.seed, at.step, world.rank + i * world.size) for i in count())
            try:
                update = train_step(
                    run.objective, run.optimizers, batches, seeds, rate, s.clip, world, run.scaler
                )
            except TrainingError:  # before the update: what was good is good still
                at.step -= 1
                keep_good_weights(run)
                raise
            if run.average is not None:
                run.average.update(run.model, at.step)
            meter.add(update, batches)
            at.unvalidated = at.step % s.validate_every == 0 or ending(run) is not None
            if at.step % s.log_every == 0:
                tell(meter.read(update.rate) | gpu_record(world.device, run.scaler))
            if world.any(signals.received is not None):
                return stop_for(run, signals)
            if at.unvalidated and (reason := conclude(run, evaluate, tell, signals)):
                return reason
    raise AssertionError("epochs do not end")


def ending(run: Run) -> str | None:
    """Why the run is over, if it is."""
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
    """The update that a falling schedule ends with: the last by number, or by time at this pace.

    By time the rates follow the clock, and no two runs are the same to the bit.
    """
    s, at, world = run.settings.train, run.position, run.world
    if s.max_minutes is None or at.step == 0:
        return run.max_steps
    (seconds,) = world.sum(at.seconds if world.leads else 0.0)  # one clock for all processes
    return ceil(min(run.max_steps, at.step * 60 * s.max_minutes / seconds))


def warmup_updates(run: Run, last: int) -> int:
    """The updates of the warm-up: train.warmup, or a share of the run."""
    s = run.settings.train
    return s.warmup if s.warmup_share is None else ceil(s.warmup_share * last)


def reading(run: Run) -> Iterator[list[Batch]]:
    """This process's batches of each update, and in time those of the text that the run ends with.

    That text begins at an update that all processes agree on, with an epoch of its own.
    """
    at = run.position
    while True:
        if at.batch == 0:  # else the epoch is finished first, or broken off below
            at.final = at.final or is_time_for_final(run)
        for batch, batches in prefetch(on_device(updates(run), run.world.device)):
            if is_time_for_final(run):
                at.final = True
                break
            at.batch = batch
            yield batches
        at.epoch, at.batch, at.progress = at.epoch + 1, 0, min(1.0, at.step / last_step(run))


def is_time_for_final(run: Run) -> bool:
    """By updates or by time, whichever ends the run; once it is, it stays so."""
    if run.data.final is None or run.position.final:
        return False
    return run.position.step >= (1 - run.settings.data.final_share) * last_step(run)


def updates(run: Run) -> Iterator[tuple[int, list[Batch]]]:
    """From where the run stands to the end of the epoch: the number of the last batch of each
    update, and this process's batches.

    An update takes `accumulate` batches from every process. What is left of an epoch and is too
    little for one more is not read in this epoch.
    """
    data, s, world, at = run.settings.data, run.settings.train, run.world, run.position
    size, epoch = s.accumulate * world.size, at.epoch
    text = (run.data.final if at.final else None) or run.data.train
    examples = text.epoch(s.seed, epoch, at.progress)
    batches = TokenBatches(examples.lengths, data.batch_tokens, s.seed).epoch(epoch)
    if len(batches) < size:
        raise TrainingError(
            f"An epoch has {len(batches)} batches, one update takes {size}.",
            "An update takes train.accumulate batches from every process.",
            "Lower train.accumulate or data.batch_tokens, or start fewer processes.",
        )
    for end in range(at.batch + size, len(batches) + 1, size):
        mine = range(end - size + world.rank, end, world.size)
        yield end, [examples.batch(batches[i], draw_seed(s.seed, epoch, i)) for i in mine]


def on_device(
    updates: Iterator[tuple[int, list[Batch]]], device: torch.device
) -> Iterator[tuple[int, list[Batch]]]:
    """The same updates with their batches on the device; `prefetch` copies them a step ahead."""
    for end, batches in updates:
        yield end, [batch.to(device) for batch in batches]


class Meter:
    """Return the log record of the updates since the last one."""

    def __init__(self, position: Position) -> None:
        self._at, self._before = position, position.seconds
        self._began = self._since = time.perf_counter()
        self._labels = 0

    def add(self, update: Update, batches: list[Batch]) -> None:
        at, paddings = self._at, [batch.padding for batch in batches]
        at.seconds = self._before + time.perf_counter() - self._began
        at.labels += update.labels
        self._labels += update.labels
        added = {
            "updates": int(not update.skipped),
            "labels": update.labels,
            "loss": update.loss * update.labels,
            "norm": update.gradient_norm,
            "real": sum(real for real, _ in paddings),
            "cells": sum(cells for _, cells in paddings),
        }
        at.window = {name: at.window.get(name, 0.0) + value for name, value in added.items()}

    def read(self, rate: float) -> Record:
        at, w, now = self._at, self._at.window, time.perf_counter()
        record = {
            **at.place,
            "train_loss": w["loss"] / w["labels"],
            "labels_per_second": self._labels / (now - self._since),
            "gradient_norm": w["norm"] / max(1, w["updates"]),
            "learning_rate": rate,
            "padding": 1 - w["real"] / w["cells"],
            "seconds": at.seconds,
        }
        at.window, self._labels, self._since = {}, 0, now
        return record


def inference_weights(run: Run) -> dict[str, Tensor]:
    """Return the weights of a checkpoint, averaged if so set. Every process must call it."""
    averaged = run.average.weights if run.average is not None else {}
    return {n: whole(averaged.get(n, w)).clone() for n, w in weights_of(run.model).items()}


def stored(run: Run, weights: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a checkpoint: the weights, and the votes of n-grams if there are any."""
    return as_arrays(weights) | (run.votes.arrays() if run.votes is not None else {})


def conclude(run: Run, evaluate: Evaluate | None, tell: Report, signals: Signals) -> str | None:
    """Validate, note whether it is the best yet, and save; refuse weights that are not finite.

    A signal breaks a validation off (of a single process; others would wait for its result). It
    stays due, the run is saved without it, and the reason to stop is given.
    """
    s, data, at, world = run.settings.train, run.settings.data, run.position, run.world
    weights = inference_weights(run)
    to_save = Checkpoint(run.settings, stored(run, weights))
    world.lead(lambda: run.folder.refuse_nonfinite(to_save, at.step))
    scores: dict[str, float] = {}
    if world.leads:
        try:
            with signals.at_once() if world.size == 1 else nullcontext():
                sets = {one.name: one.examples for one in run.data.valid_sets} or run.data.valid
                scores = validate(
                    run.settings.model, weights, sets, data.batch_tokens, evaluate,
                    s.attention_entropy, world.device, run.votes,
                )  # fmt: skip
        except StopRequested:
            return stop_for(run, signals)
    (score,) = world.sum(scores[s.metric] if world.leads else 0.0)
    is_best = run.stopping.better(score)
    at.unvalidated = False
    named = {f"valid_{name}": value for name, value in scores.items()}
    reached = {"labels": at.labels, "seconds": at.seconds}
    # Before saving: a run killed in between drops the record and validates again.
    tell({**at.place, **named, "best": is_best, **reached})
    save(run, weights, is_best)
    return None


def stop_for(run: Run, signals: Signals) -> str:
    """Save as things stand, and say which signal it was; another process may have got it."""
    save(run, inference_weights(run), is_best=False)
    run.signal = signals.received or SIGTERM
    return f"signal {int(run.signal)}"


def keep_good_weights(run: Run) -> None:
    """Save what the last update left; a resumed run goes on behind the batch that failed.

    What is not finite is not saved. The error that is on its way says more than that.
    """
    with suppress(TrainingError):
        save(run, inference_weights(run), is_best=False)


def save(run: Run, weights: dict[str, Tensor], is_best: bool) -> None:
    step, keep = run.position.step, run.settings.train.keep
    state = capture(run.model, run.optimizers, run.position, run.stopping, run.average, run.scaler)
    saved = Checkpoint(run.settings, stored(run, weights), run.data.tokenizers, state)
    run.world.lead(lambda: run.folder.save(saved, step, is_best, keep))
