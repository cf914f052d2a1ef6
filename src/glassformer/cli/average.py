"""`glassformer average`: one model out of the last checkpoints of a run (§6.1)."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.train import say


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    last: Annotated[int, typer.Option(min=1, help="How many of the last checkpoints.")] = 5,
    into: Annotated[Path | None, typer.Option(help="Where it goes. [RUN/averaged]")] = None,
) -> None:
    """Average the weights of a run's last checkpoints into one that loads like any other."""
    from glassformer import checkpoint
    from glassformer.errors import CheckpointError

    steps = checkpoint.RunFolder(run).last(last)
    if not steps:
        raise CheckpointError(
            f"{run} holds no checkpoint.",
            "An average is made of the step-… folders of a run.",
            "Name the folder of a run; train.keep says how many of them a run keeps.",
        )
    newest = checkpoint.read(steps[-1])
    averaged = checkpoint.Checkpoint(newest.settings, checkpoint.average(steps), newest.tokenizers)
    if len(steps) < last:
        keep = newest.settings.train.keep
        say(f"{len(steps)} of the last {last} checkpoints are there: train.keep = {keep}")
    place = into or run / "averaged"
    if (place / checkpoint.STATE_VALUES).exists():
        raise CheckpointError(
            f"{place} is a checkpoint that a run can go on from.",
            "An average has weights only: the run could not be resumed.",
            "Name another place: --into FOLDER.",
        )
    checkpoint.write(averaged, place)
    print(f"the average of {', '.join(step.name for step in steps)}: {place}")
