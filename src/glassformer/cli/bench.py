"""`glassformer bench`: speed, memory and time to a score, as a table and as JSON."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable

from glassformer.cli import options as o
from glassformer.cli.progress import progress
from glassformer.config import RunSettings
from glassformer.extras import require_torch

if TYPE_CHECKING:
    from glassformer.bench.harness import Report

app = typer.Typer(no_args_is_help=True)

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Toy sizes in seconds, to results/quick: a test of the bench itself."
    ),
]


@app.callback()
def bench() -> None:
    """Beside peers, contenders run in turns; the worst ratio to the best of them comes last."""


@app.command()
def model(
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds; the best one counts. [7]")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every contender.")] = 2,
    output: Annotated[
        Path | None, typer.Option(help="Where the figures go as JSON. [results/bench_model.json]")
    ] = None,
    quick: Quick = False,
) -> None:
    """The whole model beside nn.Transformer and Marian; attention's cost against length."""
    require_torch("glassformer bench model")
    import torch

    from glassformer.bench.model import Plan, bench_model

    how = effort(quick, rounds, usual=7)
    torch.set_num_threads(threads)
    plan = Plan.quick() if quick else Plan(rounds=rounds or 7)
    with progress("measuring", plan.steps) as tick:
        report = bench_model(plan, f"glassformer bench model {how} --threads {threads}", tick)
    show(report, output or figures("bench_model", quick))


def effort(quick: bool, rounds: int | None, usual: int) -> str:
    """How much is measured, as it is typed."""
    o.not_with("--quick", quick, "It has rounds of its own.", rounds=rounds)
    return "--quick" if quick else f"--rounds {rounds or usual}"


def figures(name: str, quick: bool) -> Path:
    """Toy figures never take the place of real ones."""
    return Path("results/quick" if quick else "results") / f"{name}.json"


def show(report: "Report", output: Path) -> None:
    report.save(output)
    console = print_tables(report)
    console.print(f"written to {output}")
    console.print(f"worst ratio: {report.worst_ratio:.2f}")


def print_tables(report: "Report") -> Console:
    """The tables, and what one must know to read them."""
    console = Console(width=100, highlight=False)
    for table in report.tables:
        rich = RichTable(title=table.title, title_justify="left", title_style="bold")
        for column, first in zip(table.columns, table.rows[0], strict=True):
            rich.add_column(column, justify="left" if isinstance(first, str) else "right")
        for row in table.rows:
            rich.add_row(*map(_text, row))
        console.print(rich)
    for note in report.notes:
        console.print(note)
    return console


def _text(cell: str | int | float) -> str:
    return (
        cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:.2f}"
    )


@app.command()
def train(
    recipe: Annotated[Path, typer.Option(help="Whose data to take the batches from.")] = Path(
        "recipes/multi30k.toml"
    ),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the best one counts.")] = 3,
    updates: Annotated[int, typer.Option(min=1, help="Updates in a turn.")] = 6,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every contender.")] = 2,
    output: Annotated[Path, typer.Option(help="Where the figures go as JSON.")] = Path(
        "results/bench_train.json"
    ),
) -> None:
    """Whole training steps of the tiny shape beside nn.Transformer and Marian."""
    require_torch("glassformer bench train")
    import torch

    from glassformer.bench.train import Plan, bench_train
    from glassformer.cli.train import read_recipe
    from glassformer.data.prepare import prepare

    torch.set_num_threads(threads)
    data = prepare(read_recipe(recipe, []))
    plan = Plan(updates, rounds)
    command = f"glassformer bench train --recipe {recipe} --rounds {rounds} --updates {updates}"
    with progress("measuring", plan.steps) as tick:
        report = bench_train(data, plan, f"{command} --threads {threads}", tick)
    show(report, output)


@app.command()
def decode(
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds; the best one counts. [3]")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every contender.")] = 2,
    run: Annotated[
        Path | None, typer.Option("--model", help="A trained model instead of random weights.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="With --model: its sentences.")] = None,
    reference: Annotated[Path | None, typer.Option(help="With --model: what BLEU asks.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="With --model: only so many sentences.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Where the figures go as JSON. [results/bench_decode[_trained].json]"),
    ] = None,
    quick: Quick = False,
) -> None:
    """Decoding beside CTranslate2 and Hugging Face on the same weights: speed and memory."""
    require_torch("glassformer bench decode")
    import torch

    from glassformer.bench.decode import Plan, bench_decode, bench_trained
    from glassformer.data.corpus import TextFiles
    from glassformer.errors import SettingsError

    o.only_with("--model", run is not None, limit=limit)
    how = effort(quick, rounds, usual=3)
    torch.set_num_threads(threads)
    command = f"glassformer bench decode {how} --threads {threads}"
    if run is None and source is None and reference is None:
        plan = Plan.quick() if quick else Plan(rounds=rounds or 3)
        with progress("measuring", plan.steps) as tick:
            report = bench_decode(plan, command, tick)
        show(report, output or figures("bench_decode", quick))
    elif run is not None and source is not None and reference is not None:
        plan = Plan.quick() if quick else Plan.trained(rounds or 3)
        command += f" --model {run} --source {source} --reference {reference}"
        command += f" --limit {limit}" if limit else ""
        text = TextFiles((source, reference))
        with progress("measuring", plan.steps) as tick:
            report = bench_trained(run, text, plan, command, tick, limit)
        show(report, output or figures("bench_decode_trained", quick))
    else:
        raise SettingsError(
            "A trained model is measured on text, and not all of it is named.",
            "--model, --source and --reference go together.",
            "Name all three, or none of them for random weights.",
        )


@app.command("time-to-bleu")
def time_to_bleu(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders or logs of runs; a RECIPE.toml is trained first, in runs/time-to-bleu/, "
            "until the target is reached.",
        ),
    ],
    target: Annotated[float, typer.Option(min=0.0, max=100.0, help="The BLEU to reach.")] = 55.0,
    output: Annotated[
        Path | None, typer.Option(help="Where figures and curves go as JSON.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Where the picture goes: .svg or .png.")
    ] = None,
) -> None:
    """When validation first had a BLEU, and its curve against minutes and target tokens."""
    from glassformer import picture
    from glassformer.bench import time_to_bleu as bench
    from glassformer.cli.evaluate import WIDTH, write
    from glassformer.cli.train import read_recipe
    from glassformer.evaluate.card import show as show_sheet

    if figure is not None:
        picture.check(figure)
    recipes = {path: read_recipe(path, []) for path in runs if path.suffix == ".toml"}
    found = {path: bench.timed(path) for path in runs if path not in recipes}
    for path, settings in recipes.items():  # when all else is known to be there
        found[path] = bench.timed(_trained(settings, path.stem, target))
    timed = [found[path] for path in dict.fromkeys(runs)]
    command = shlex.join(["glassformer", *sys.argv[1:]])
    show_sheet(bench.sheet(timed, target, command), Console(width=WIDTH, highlight=False))
    if output is not None:
        content = json.dumps(bench.content(timed, target, command), indent=2, ensure_ascii=False)
        write(output, content + "\n")
    if figure is not None:
        bench.picture(timed, target, figure)


@app.command()
def course(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or their logs.")
    ],
    output: Annotated[Path, typer.Option(help="Where the picture goes: .svg or .png.")] = Path(
        "course.svg"
    ),
) -> None:
    """Draw loss, validation, learning rate and speed of runs against their minutes."""
    from glassformer.bench.course import draw

    draw(runs, output)
    print(f"written to {output}")


def _trained(settings: RunSettings, name: str, target: float) -> Path:
    """A recipe trained until BLEU is reached, or until its own limits; gives the run's folder."""
    from glassformer.bench.trials import claim
    from glassformer.cli.train import carry_out

    folder = Path("runs/time-to-bleu") / name
    settings = settings.replace(train={"metric": "bleu"})
    resume = claim(folder, settings)
    carry_out(settings.replace(train={"target": target}), folder, resume)
    return folder
