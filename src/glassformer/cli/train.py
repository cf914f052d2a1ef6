"""`glassformer train`: train what a recipe describes."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.api import train as api
from glassformer.cli import options as o
from glassformer.config import RunSettings, parse_changes
from glassformer.device import check_name


def train(
    recipe: o.Recipe,
    changes: o.Changes = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of checkpoints and log.", show_default="runs/RECIPE"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run from its last checkpoint.")
    ] = False,
    skip_bad: o.SkipBad = False,
    device: o.TrainDevice = None,
    verify_resume: Annotated[
        bool,
        typer.Option(
            "--verify-resume",
            help="Instead of training, prove that --resume continues to the same bits.",
        ),
    ] = False,
) -> None:
    """Train what RECIPE.toml describes. Ctrl-C saves and stops; --resume continues."""
    settings = on_device(read_recipe(recipe, changes or [], skip_bad), device)
    if verify_resume:
        api.verify_resume(settings)
    else:
        carry_out(settings, run or Path("runs") / recipe.stem, resume)


def read_recipe(recipe: Path, changes: list[str], skip_bad: bool = False) -> RunSettings:
    """Return the settings of a recipe file with the changes of a command line."""
    settings = api.settings_of(recipe, parse_changes(changes))
    return settings.replace(data={"skip_bad": True}) if skip_bad else settings


def on_device(settings: RunSettings, device: str | None) -> RunSettings:
    """Return the settings with the device of a command line, if it names one."""
    if device is None:
        return settings
    check_name(device)
    return settings.replace(train={"device": device})


def carry_out(settings: RunSettings, folder: Path, resume: bool = False) -> None:
    """Train; after Ctrl-C or SIGTERM exit as a shell expects, with 128 and the signal."""
    done = api.carry_out(settings, folder, resume)
    if done.signal is not None:
        raise typer.Exit(done.exit_code)
