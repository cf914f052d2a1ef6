"""The checkpoints of one run: which are kept, which is the best, which the latest."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from glassformer.checkpoint.format import (
    MANIFEST,
    PARTIAL,
    Checkpoint,
    one_clear_error,
    read,
    remove,
    write,
)
from glassformer.errors import CheckpointError, TrainingError


class RunFolder:
    """Checkpoints of one run, `step-00001000` and so on, with links `latest` and `best`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def steps(self) -> list[Path]:
        """Return the complete checkpoints, the oldest first."""
        return sorted(p for p in self.path.glob("step-*") if (p / MANIFEST).is_file())

    def last(self, count: int) -> list[Path]:
        """Return at most `count` of the last checkpoints, oldest first, none missing in between.

        The best checkpoint is kept however old it is. An old one does not count as one of the last.
        """
        steps = self.steps()
        first = max(0, len(steps) - 1)
        while first and _follows(steps[first], steps[first - 1]):
            first -= 1
        return steps[first:][-count:]

    def save(self, checkpoint: Checkpoint, step: int, is_best: bool, keep: int) -> Path:
        """Write a checkpoint, set the links, and delete all but the last `keep` and the best.

        Checkpoints of later steps belong to a run that was resumed from before them: delete them.
        """
        self.refuse_nonfinite(checkpoint, step)
        folder = self.path / f"step-{step:08d}"
        with one_clear_error(f"The checkpoint {folder.name}"):
            self.path.mkdir(parents=True, exist_ok=True)
            for name in ("step", "latest", "best"):  # left by a process killed while writing
                for debris in self.path.glob(f"{PARTIAL}{name}-*"):
                    debris.unlink() if debris.is_symlink() else shutil.rmtree(debris)
            write(checkpoint, folder)
            self._link("latest", folder)
            if is_best:
                self._link("best", folder)
            so_far = [p.name for p in self.steps() if p.name <= folder.name]
            kept = {*so_far[-keep:], *(p.readlink().name for p in self._links("best"))}
            for old in self.steps():
                if old.name not in kept:
                    remove(old)
        return folder

    def refuse_nonfinite(self, checkpoint: Checkpoint, step: int) -> None:
        """Refuse to save weights or optimiser state with NaN or infinity: no run gets past them."""
        if name := nonfinite(checkpoint):
            good = [path.name for path in self.steps()]
            raise TrainingError(
                f"Update {step:,} is not saved: {name} is not finite.",
                "A run that resumed from NaN or infinity would never get rid of it.",
                "Lower train.learning_rate or lengthen train.warmup, and "
                + (f"--resume: that goes on from {good[-1]}." if good else "start again."),
            )

    def _links(self, name: str) -> list[Path]:
        return [p for p in [self.path / name] if p.is_symlink()]

    def newest(self, notice: Callable[[str], None]) -> Checkpoint:
        """Read the latest checkpoint that can be resumed; report each one that is skipped."""
        steps = self.steps()
        for folder in reversed(steps):
            try:
                checkpoint = read(folder, training=True)
            except CheckpointError as error:
                problem = error.what
            else:
                if checkpoint.training is None:
                    problem = f"{folder} has weights only."
                elif name := nonfinite(checkpoint):
                    problem = f"{folder} cannot be resumed: {name} is not finite."
                else:
                    return checkpoint
            notice(f"{problem} Going back to the checkpoint before it.")
        raise CheckpointError(
            f"{self.path} holds no checkpoint to go on from.",
            f"None of its {len(steps)} can be resumed."
            if steps
            else "A run saves its first one at its first validation.",
            f"Start a new run without --resume: --run {self.path}-2."
            if steps
            else "Start it without --resume.",
        )

    def _link(self, name: str, folder: Path) -> None:
        fresh = self.path / f"{PARTIAL}{name}-{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(folder.name)
        fresh.replace(self.path / name)


def _follows(later: Path, earlier: Path) -> bool:
    """Return whether no checkpoint can be missing between the two."""
    apart = int(later.name.removeprefix("step-")) - int(earlier.name.removeprefix("step-"))
    return apart <= read(later).settings.train.validate_every


def nonfinite(checkpoint: Checkpoint) -> str | None:
    """Return the name of a weight or of a part of the state with NaN or infinity, if any."""
    state = checkpoint.training.tensors if checkpoint.training is not None else {}
    for tensors in (checkpoint.weights, state):
        for name in tensors:
            if not np.isfinite(np.asarray(tensors[name])).all():
                return name
    return None


def find(path: Path) -> Path:
    """Return the checkpoint that a path means: the folder itself, or a run's best or latest."""
    candidates = [path, path / "best", path / "latest", *reversed(RunFolder(path).steps())]
    return next((c for c in candidates if (c / MANIFEST).is_file()), path)
