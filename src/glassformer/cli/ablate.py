"""`glassformer ablate`: what each setting of a recipe contributes to its score."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glassformer.api.run import StoppedError
from glassformer.cli import options as o
from glassformer.config import parse_run_changes
from glassformer.errors import SettingsError
from glassformer.extras import require_torch
from glassformer.progress import columns

WIDTH = 130  # columns of the tables


def ablate(
    recipe: o.Recipe,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=V,V...",
            help="A setting and the values to try, such as train.warmup=100,400. May be repeated.",
        ),
    ],
    changes: o.Changes = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Runs of each variant, with different seeds."),
    ] = 1,
    grid: Annotated[
        bool, typer.Option("--grid", help="Try all combinations, instead of one change at a time.")
    ] = False,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of the runs.", show_default="runs/ablate-RECIPE"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the table here as JSON, and beside it as Markdown.",
            show_default="results/ablate_RECIPE.json",
        ),
    ] = None,
) -> None:
    """Train RECIPE as it is, and again with one setting changed at a time.

    All runs have the same budget. Repeat the command to continue an interrupted one.
    """
    require_torch("glassformer ablate")

    from glassformer.api import ablate as api
    from glassformer.bench.variants import factors
    from glassformer.evaluate.card import markdown, show

    place = output or Path("results") / f"ablate_{Path(recipe).stem}.json"
    if place.suffix != ".json":
        raise SettingsError(
            f"--output {place} does not end in .json.",
            "The table is written there as JSON, and beside it as Markdown.",
            f"Say --output {place.with_suffix('.json')}.",
        )
    try:
        report = api.ablate(
            recipe,
            factors(vary),
            changes=parse_run_changes(changes or []),
            seeds=seeds,
            grid=grid,
            run=run,
            command=o.written_command(),
        )
    except StoppedError as stopped:
        raise typer.Exit(stopped.exit_code) from None
    show(report.sheet(), Console(width=columns(WIDTH), highlight=False))
    o.save(place, json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n")
    o.save(place.with_suffix(".md"), markdown(report.sheet()))
    if report.all_failed:
        raise typer.Exit(1)
