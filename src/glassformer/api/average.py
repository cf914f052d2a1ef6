"""Average the last checkpoints of a run into one (§6.1 of the paper)."""

from dataclasses import dataclass
from pathlib import Path

from glassformer import checkpoint
from glassformer.errors import CheckpointError
from glassformer.pipeline import Pipeline, load


@dataclass(frozen=True)
class Averaged:
    """The average of checkpoints: its folder and its checkpoints."""

    folder: Path
    steps: list[Path]  # the checkpoints, oldest first
    kept: int  # checkpoints that the run keeps: train.keep

    def load(
        self, int8: bool | None = None, threads: int | None = None, device: str = "cpu"
    ) -> Pipeline:
        """Load the averaged model, as `glassformer.load` does."""
        return load(self.folder, int8, threads=threads, device=device)

    def __str__(self) -> str:
        return f"the average of {', '.join(step.name for step in self.steps)}: {self.folder}"


def average(run: str | Path, last: int = 5, into: str | Path | None = None) -> Averaged:
    """Average the weights of a run's last checkpoints; `glassformer average`.

    The result loads like any checkpoint. `into` is the folder to write; None: RUN/averaged. A run
    that has fewer than `last` checkpoints is averaged over those that it has.
    """
    steps = checkpoint.RunFolder(Path(run)).last(last)
    if not steps:
        raise CheckpointError(
            f"{run} holds no checkpoint.",
            "An average is made of the step-… folders of a run.",
            "Name the folder of a run; train.keep says how many of them a run keeps.",
        )
    newest = checkpoint.read(steps[-1])
    place = Path(into) if into is not None else Path(run) / "averaged"
    if (place / checkpoint.STATE_VALUES).exists():
        raise CheckpointError(
            f"{place} is a checkpoint to resume a run from.",
            "An average has weights only: the run could not be resumed.",
            "Name another place: --into FOLDER.",
        )
    weights = checkpoint.average(steps)
    checkpoint.write(checkpoint.Checkpoint(newest.settings, weights, newest.tokenizers), place)
    return Averaged(place, steps, newest.settings.train.keep)
