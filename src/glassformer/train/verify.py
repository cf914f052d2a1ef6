"""Verify on the user's settings that an interrupted run resumes to the same bits.

Each part of a run is a Python process of its own, as it is for a user. Process state such as
the hash seed differs from part to part.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.checkpoint import Checkpoint, RunFolder, read
from glassformer.config import RunSettings
from glassformer.device import resolve
from glassformer.errors import TrainingError
from glassformer.train.distributed import World
from glassformer.train.log import Record
from glassformer.train.loop import train
from glassformer.train.schedule import FALLING
from glassformer.train.start import prepared, start

STEPS, SAVED_EVERY = 8, 4
STOPPED, KILLED = 3, 6  # SIGTERM saves; after SIGKILL a run goes back to update 4
PART = ("-m", "glassformer.train.verify")  # the Python arguments of a process that is a part


def verify_resume(settings: RunSettings, notice: Callable[[str], None]) -> None:
    """Train a few updates in one go, then again in processes that are stopped and killed."""
    s = settings.train
    if s.max_minutes is not None and s.schedule in FALLING:
        notice(
            f"train.schedule = {s.schedule!r} ends with train.max_minutes, so its rates follow the "
            "clock, and no two runs have the same; the check runs without that limit"
        )
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "recipe.toml").write_text(_shortened(settings).to_toml())
        _carry_out(folder, "whole", STEPS, signal.SIGTERM)
        notice(f"a process trained {STEPS} updates in one go")
        _carry_out(folder, "parts", STOPPED, signal.SIGTERM)
        notice(f"a second one was stopped by SIGTERM after {STOPPED}")
        _carry_out(folder, "parts", KILLED, signal.SIGKILL)
        notice(f"a third one resumed, and was killed by SIGKILL after {KILLED}")
        _carry_out(folder, "parts", STEPS, signal.SIGTERM)
        _compare(_newest(folder / "whole"), _newest(folder / "parts"))
        notice(f"a fourth one resumed: the same bits after {STEPS}")


def _shortened(settings: RunSettings) -> RunSettings:
    """Return the settings of a run whose saves fall between the interruptions."""
    quick: dict[str, object] = {
        "log_every": 1,
        "validate_every": SAVED_EVERY,
        "keep": STEPS,
        "tensorboard": False,
        "max_steps": max(settings.train.max_steps, STEPS + 1),  # too short proves nothing
        "max_minutes": None,
        "epochs": None,
        "target": None,
    }
    if settings.train.metric == "bleu":  # which takes its time, and no part in resuming
        quick["metric"] = "loss"
    return settings.replace(train=quick)


def _carry_out(folder: Path, run: str, step: int, number: signal.Signals) -> None:
    """Start a process that trains until the signal ends it during update `step`."""
    parent = os.pathsep.join(filter(None, sys.path))  # what this process imports from
    environment = {**os.environ, "PYTHONPATH": parent, "PYTHONHASHSEED": "random"}
    ended = subprocess.run(
        [sys.executable, "-P", *PART, str(folder), run, str(step), str(int(number))],
        env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if ended.returncode != (-signal.SIGKILL if number == signal.SIGKILL else 0):
        lines = ended.stderr.strip().splitlines() or ["It says nothing."]
        raise TrainingError(
            f"A process that was to train {step} updates ended with code {ended.returncode}.",
            lines[-1],
            "Train without --verify-resume, which reports such errors in full.",
        )


def part(folder: Path, run: str, step: int, number: int) -> None:
    """Train in this process, from the start or a checkpoint, until it sends itself the signal."""

    def stop(record: Record) -> None:
        if record["step"] == step and "train_loss" in record:
            signal.raise_signal(number)

    place = folder / run
    settings = RunSettings.from_toml((folder / "recipe.toml").read_bytes())
    resume = bool(RunFolder(place).steps())
    data = prepared(settings, place if resume else None)
    world = World(device=resolve(settings.train.device))
    train(start(data, place, world, resume, print), report=stop)


def _newest(folder: Path) -> Checkpoint:
    return read(RunFolder(folder).steps()[-1], training=True)


def _compare(whole: Checkpoint, resumed: Checkpoint) -> None:
    if different := different_tensors(whole, resumed):
        raise TrainingError(
            f"A run interrupted after {STOPPED} and {KILLED} updates did not end with the same "
            "bits.",
            f"{len(different)} tensors differ, {different[0]} among them.",
            "Set train.threads to a fixed number; if they still differ, please report it.",
        )


def different_tensors(one: Checkpoint, other: Checkpoint) -> list[str]:
    """Return the names of weights and state that differ in a bit, or that only one run has."""
    assert one.training is not None and other.training is not None, "runs save their state"
    a = {**one.weights, **one.training.tensors}
    b = {**other.weights, **other.training.tensors}
    return sorted(name for name in a.keys() | b.keys() if not _same(a.get(name), b.get(name)))


def _same(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)


if __name__ == "__main__":
    part(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
