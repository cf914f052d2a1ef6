"""`glassformer train`: train what a recipe describes, or a file of one's own without one."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.api import train as api
from glassformer.api.lists import Task
from glassformer.cli import options as o
from glassformer.config import RunSettings, parse_run_changes
from glassformer.device import check_name
from glassformer.errors import SettingsError


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe of `glassformer recipes`, a TOML file, or the folder of a run.",
            show_default=False,
        ),
    ] = None,
    changes: o.Changes = None,
    translate: Annotated[
        list[Path] | None,
        typer.Option(
            "--translate",
            metavar="FILE",
            help="Train a translator on this TSV, CSV or JSONL file, without a recipe; twice for "
            "two plain files.",
            show_default=False,
        ),
    ] = None,
    classify: Annotated[
        Path | None,
        typer.Option(
            "--classify",
            metavar="FILE",
            help="Train a classifier on this TSV, CSV or JSONL file, without a recipe.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes", min=0.05, metavar="N",
            help="Time to train, with --translate or --classify.", show_default="20",
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Columns of --translate or --classify, by name or number from 1.",
            show_default="guessed",
        ),
    ] = "",
    run: Annotated[
        Path | None,
        typer.Option(
            "--run", "-o", metavar="FOLDER", help="Folder of checkpoints and log.",
            show_default="runs/RECIPE",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", "-r", help="Continue the run from its last checkpoint.")
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
) -> None:  # fmt: skip
    """Train a RECIPE, or your own file without one. Ctrl-C saves and stops; --resume continues."""
    if translate or classify:
        if translate and classify:
            raise SettingsError(
                "--translate and --classify are both given.", ONE_TASK, "Leave one of them out."
            )
        o.not_with("--verify-resume", verify_resume, ONE_RECIPE, translate=translate)
        o.not_with("--verify-resume", verify_resume, ONE_RECIPE, classify=classify)
        task: Task = "translate" if translate else "classify"
        paths = tuple(translate or filter(None, [classify]))
        data = paths if len(paths) > 1 else paths[0]
        _end(
            api.train_own(
                data, task, columns=o.columns_of(columns), minutes=minutes, run=run,
                changes=api.with_device(parse_run_changes(_all_changes(recipe, changes)), device),
                resume=resume, skip_bad=skip_bad,
            )
        )  # fmt: skip
        return
    o.only_with("--translate or --classify", False, minutes=minutes, columns=columns or None)
    if recipe is None:
        raise SettingsError(
            "There is nothing to train on.",
            "A recipe has the settings of a run; without one they are chosen for a file of yours.",
            "glassformer recipes; or glassformer train --translate pairs.tsv.",
        )
    settings = on_device(read_recipe(recipe, changes or [], skip_bad), device)
    if verify_resume:
        api.verify_resume(settings)
    else:
        carry_out(settings, run or api.folder_of(recipe, settings), resume)


ONE_TASK = "A run trains one model."
ONE_RECIPE = "It proves what a recipe does; the one that is chosen is written to the run's folder."


def _all_changes(recipe: str | None, changes: list[str] | None) -> list[str]:
    """Return the changes of a command without a recipe, whose first one stands in its place."""
    return [*([] if recipe is None else [recipe]), *(changes or [])]


def read_recipe(recipe: str | Path, changes: list[str], skip_bad: bool = False) -> RunSettings:
    """Return the settings of a recipe with the changes of a command line."""
    settings = api.settings_of(recipe, parse_run_changes(changes))
    return settings.replace(data={"skip_bad": True}) if skip_bad else settings


def on_device(settings: RunSettings, device: str | None) -> RunSettings:
    """Return the settings with the device of a command line, if it names one."""
    if device is None:
        return settings
    check_name(device)
    return settings.replace(train={"device": device})


def carry_out(settings: RunSettings, folder: Path, resume: bool = False) -> None:
    """Train; after Ctrl-C or SIGTERM exit as a shell expects, with 128 and the signal."""
    _end(api.carry_out(settings, folder, resume))


def _end(done: api.TrainedRun) -> None:
    if done.signal is not None:
        raise typer.Exit(done.exit_code)
