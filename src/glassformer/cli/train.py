"""`glassformer train`: train a recipe, or a user's file without a recipe."""

from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.api import train as api
from glassformer.api.recipe import settings_of, with_options
from glassformer.api.run import verify_resume as prove
from glassformer.cli import options as o
from glassformer.config import RunSettings, parse_run_changes
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
    typed = changes or []
    if translate or classify:
        if translate and classify:
            raise SettingsError(
                "--translate and --classify are both given.", ONE_TASK, "Leave one of them out."
            )
        o.not_with("--verify-resume", verify_resume, ONE_RECIPE, translate=translate)
        o.not_with("--verify-resume", verify_resume, ONE_RECIPE, classify=classify)
        paths = tuple(translate or filter(None, [classify]))
        run_to_end(
            None, [*filter(None, [recipe]), *typed],  # the first change is parsed as the recipe
            data=paths if len(paths) > 1 else paths[0],
            task="translate" if translate else "classify", columns=o.columns_of(columns),
            minutes=minutes, run=run, resume=resume, skip_bad=skip_bad, device=device,
        )  # fmt: skip
        return
    o.only_with("--translate or --classify", False, minutes=minutes, columns=columns or None)
    if recipe is None:
        raise SettingsError(
            "There is nothing to train on.",
            "A recipe has the settings of a run; without one they are chosen for a file of yours.",
            "glassformer recipes; or glassformer train --translate pairs.tsv.",
        )
    if verify_resume:
        prove(read_recipe(recipe, typed, skip_bad, device))
    else:
        run_to_end(recipe, typed, run=run, resume=resume, skip_bad=skip_bad, device=device)


ONE_TASK = "A run trains one model."
ONE_RECIPE = "It tests a recipe; a run without one writes its recipe to the run's folder."


def read_recipe(
    recipe: str | Path, changes: list[str], skip_bad: bool = False, device: str | None = None
) -> RunSettings:
    """Return the settings of a recipe with the changes of a command line."""
    return settings_of(recipe, with_options(parse_run_changes(changes), device, skip_bad))


def run_to_end(recipe: str | Path | None, changes: list[str], **options: Any) -> None:
    """Train; after Ctrl-C or SIGTERM exit as a shell expects, with 128 and the signal."""
    done = api.train(recipe, changes=parse_run_changes(changes), **options)
    if done.signal is not None:
        raise typer.Exit(done.exit_code)
