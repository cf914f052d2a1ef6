"""`glassformer ablate`: what each choice of a recipe is worth."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from glassformer.cli.evaluate import write
from glassformer.cli.train import carry_out, read_recipe, say
from glassformer.errors import SettingsError
from glassformer.extras import require_torch

if TYPE_CHECKING:
    from glassformer.bench.ablate import Outcome
    from glassformer.bench.variants import Trial

WIDTH = 130  # of the table, which has many columns


def ablate(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="The baseline.")],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="SECTION.NAME=VALUE,VALUE...",
            help="A setting and what to try for it; once for each setting.",
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION.NAME=VALUE]...", help="Settings to change for all."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Seeds of each variant, from the recipe's on.")
    ] = 1,
    grid: Annotated[bool, typer.Option("--grid", help="Try all combinations instead.")] = False,
    run: Annotated[
        Path | None, typer.Option(help="Where the runs go. [runs/ablate-RECIPE]")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="The table as JSON, and beside it as .md. [results/ablate_RECIPE.json]"),
    ] = None,
) -> None:
    """Train RECIPE.toml as it stands, and again with one setting changed at a time.

    All get the same budget. Repeat the command to go on where it was interrupted.
    """
    require_torch("glassformer ablate")

    from glassformer.bench.ablate import Report, rows
    from glassformer.bench.variants import factors, trials, variants
    from glassformer.evaluate.card import markdown, show

    place = output or Path("results") / f"ablate_{recipe.stem}.json"
    if place.suffix != ".json":
        raise SettingsError(
            f"{place} is no name of a JSON file.",
            "The table goes there as JSON, and beside it as Markdown.",
            f"Say --output {place.with_suffix('.json')}.",
        )
    base, tried = read_recipe(recipe, changes or []), factors(vary)
    planned = trials(
        variants(base, tried, grid), seeds, run or Path("runs") / f"ablate-{recipe.stem}"
    )
    outcomes = [_outcome(trial, i, len(planned)) for i, trial in enumerate(planned, start=1)]
    command = shlex.join(["glassformer", *sys.argv[1:]])
    table = rows(outcomes, base.train.metric)
    report = Report(recipe.stem, command, base, list(tried), table, grid)
    show(report.sheet(), Console(width=WIDTH, highlight=False))
    write(place, json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n")
    write(place.with_suffix(".md"), markdown(report.sheet()))
    if report.all_failed:
        raise typer.Exit(1)


def _outcome(trial: "Trial", number: int, count: int) -> "Outcome":
    from glassformer.bench.ablate import run_trial

    say(f"run {number} of {count}: {trial}")
    try:
        outcome = run_trial(trial, carry_out)
    except typer.Exit:  # a signal
        say("interrupted; the same command goes on from here")
        raise
    if outcome.error:
        say(f"went wrong: {outcome.error}")
    return outcome
