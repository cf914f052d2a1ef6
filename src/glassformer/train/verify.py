"""Proof, on the user's own settings, that an interrupted run goes on to the same bits."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.checkpoint import Checkpoint, RunFolder, read
from glassformer.data.prepare import Prepared
from glassformer.errors import TrainingError
from glassformer.train.distributed import ALONE
from glassformer.train.log import Record
from glassformer.train.loop import start, train
from glassformer.train.schedule import FALLING

STEPS, STOPS = 8, (3, 4, 5)  # a validation falls on every fourth update


def verify_resume(data: Prepared, notice: Callable[[str], None]) -> None:
    """Train a few updates in one go, then again with interruptions: before, at and after a save."""
    s = data.settings.train
    quick: dict[str, object] = {
        "log_every": 1,
        "validate_every": 4,
        "keep": STEPS,
        "tensorboard": False,
        "max_steps": max(s.max_steps, STEPS + 1),  # too short proves nothing
        "max_minutes": None,
        "target": None,
    }
    if s.max_minutes is not None and s.schedule in FALLING:
        notice(
            f"train.schedule = {s.schedule!r} ends with train.max_minutes, so its rates follow the "
            "clock, and no two runs have the same; proven is the run without that limit"
        )
    if s.metric == "bleu":  # which takes its time, and no part in resuming
        quick["metric"] = "loss"
    data = replace(data, settings=data.settings.replace(train=quick))
    with TemporaryDirectory() as folder:
        whole = _stopped_at(data, Path(folder) / "whole", STEPS, resume=False, notice=notice)
        for stop in STOPS:
            place = Path(folder) / f"stopped-at-{stop}"
            _stopped_at(data, place, stop, resume=False, notice=notice)
            resumed = _stopped_at(data, place, STEPS, resume=True, notice=notice)
            _compare(whole, resumed, stop)
            notice(f"interrupted after {stop} updates and resumed: the same bits after {STEPS}")


def _stopped_at(
    data: Prepared, folder: Path, step: int, resume: bool, notice: Callable[[str], None]
) -> Checkpoint:
    """A run that gets SIGTERM during update `step`, as a user's would."""

    def stop(record: Record) -> None:
        if record["step"] == step and "train_loss" in record:
            signal.raise_signal(signal.SIGTERM)

    train(start(data, folder, ALONE, resume, notice), report=stop)
    return read(RunFolder(folder).steps()[-1], training=True)


def _compare(whole: Checkpoint, resumed: Checkpoint, stop: int) -> None:
    assert whole.training is not None and resumed.training is not None, "runs save their state"
    a = {**whole.weights, **whole.training.tensors}
    b = {**resumed.weights, **resumed.training.tensors}
    different = [name for name in a.keys() | b.keys() if not _same(a.get(name), b.get(name))]
    if different:
        raise TrainingError(
            f"A run interrupted after {stop} updates did not go on to the same bits.",
            f"{len(different)} of {len(a)} tensors differ, {min(different)} among them.",
            "Set train.threads to a fixed number; if it stays so, please report it.",
        )


def _same(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)
