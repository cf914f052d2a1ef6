"""`glassformer average`: average the last checkpoints of a run (§6.1)."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.progress import say


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    last: Annotated[
        int, typer.Option(min=1, metavar="N", help="Checkpoints to average, the last N.")
    ] = 5,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder to write.", show_default="RUN/averaged"),
    ] = None,
) -> None:
    """Average the weights of a run's last checkpoints into one that loads like any other."""
    from glassformer.api.average import average as averaged

    done = averaged(run, last, into)
    if len(done.steps) < last:
        say(f"{len(done.steps)} of the last {last} checkpoints are there: train.keep = {done.kept}")
    print(done)
