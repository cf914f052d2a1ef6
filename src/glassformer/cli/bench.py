"""`glassformer bench`: speed, memory and time to a score, as a table and as JSON."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
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
Threads = Annotated[int, typer.Option(min=1, help="Threads of every contender.")]


@app.callback()
def bench() -> None:
    """Measure speed and memory; contenders take turns. The worst ratio to a peer comes last."""


@app.command()
def model(
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds; the best one counts. [7]")
    ] = None,
    threads: Threads = 2,
    output: Annotated[
        Path | None, typer.Option(help="JSON file of the figures. [results/bench_model.json]")
    ] = None,
    quick: Quick = False,
) -> None:
    """Compare the torch model with nn.Transformer and Marian; time attention by length."""
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
    """Return the options that say how much is measured, as they are typed."""
    o.not_with("--quick", quick, "It has rounds of its own.", rounds=rounds)
    return "--quick" if quick else f"--rounds {rounds or usual}"


def figures(name: str, quick: bool) -> Path:
    """Return the file of the figures; toy figures never replace real ones."""
    return Path("results/quick" if quick else "results") / f"{name}.json"


def typed() -> str:
    """Return the command line as it was typed."""
    return shlex.join(["glassformer", *sys.argv[1:]])


def show(report: "Report", output: Path) -> None:
    report.save(output)
    console = print_tables(report)
    console.print(f"written to {output}")
    if report.worst_ratio is not None:
        console.print(f"worst ratio: {report.worst_ratio:.2f}")


def print_tables(report: "Report") -> Console:
    """Print the tables and notes of a report."""
    console = Console(width=100, highlight=False)
    for table in report.tables:
        rich = RichTable(
            title=table.title,
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
        )
        for column, first in zip(table.columns, table.rows[0], strict=True):
            rich.add_column(column, justify="left" if isinstance(first, str) else "right")
        for row in table.rows:
            rich.add_row(*map(_text, row))
        console.print(rich)
        console.print()
    for note in report.notes:
        console.print(note)
    return console


def _text(cell: str | int | float) -> str:
    return (
        cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:.2f}"
    )


@app.command()
def train(
    recipe: Annotated[Path, typer.Option(help="Recipe that the data is taken from.")] = Path(
        "recipes/multi30k.toml"
    ),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the best one counts.")] = 3,
    updates: Annotated[int, typer.Option(min=1, help="Updates per turn.")] = 6,
    threads: Threads = 2,
    output: Annotated[Path, typer.Option(help="JSON file of the figures.")] = Path(
        "results/bench_train.json"
    ),
) -> None:
    """Compare whole updates of the tiny shape with nn.Transformer and Marian."""
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
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="A translator (a run or a bundled one), or a preset, which gets random weights. "
            "May be repeated. [vaswani2017-base and en-fr]",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Sentences for translators, one a line. [news of wmt14, or Multi30k for its "
            "models, if $GLASSFORMER_DATA has it; else the embedded grammar]"
        ),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="With --source: their translations, for BLEU.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Sentences for translators, at most.")] = 512,
    beam: Annotated[
        int | None, typer.Option(min=2, help="Beam size. [4 for presets, 5 for translators]")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of single sentences; batches have three times more.")
    ] = 3,
    threads: Threads = 2,
    output: Annotated[
        Path | None, typer.Option(help="JSON file of the figures. [results/bench_decode.json]")
    ] = None,
    quick: Quick = False,
) -> None:
    """Compare decoding with CTranslate2 and Hugging Face on the same weights: speed and memory.

    Cells are batch 1 and 32, greedy and beam. CTranslate2 runs with all threads on one batch and
    with a worker per thread. `roof` is what memory bandwidth and arithmetic of this machine allow.
    """
    require_torch("glassformer bench decode")
    from glassformer.bench.decode import Plan, bench_decode, task_of
    from glassformer.bench.roof import Machine

    o.only_with("--source", source is not None, reference=reference)
    plan = Plan(Machine(threads), rounds, beam, limit)
    plan = plan.quick() if quick else plan
    names = models or (["tiny", "en-fr"] if quick else ["vaswani2017-base", "en-fr"])
    tasks = [task_of(name, plan, source, reference) for name in names]
    with progress("measuring", sum(task.steps(plan) for task in tasks)) as tick:
        report = bench_decode(tasks, plan, typed(), tick)
    show(report, output or figures("bench_decode", quick))


@app.command()
def classify(
    model: Annotated[
        str, typer.Option(help="A classifier: a run, or a bundled one.")
    ] = "sentiment",
    file: Annotated[
        Path | None,
        typer.Option(
            help="Texts, one a line. [IMDB's test_a if $GLASSFORMER_DATA has it, else random "
            "tokens in lengths like those of reviews]"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Texts, at most.")] = 256,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the best one counts.")] = 5,
    threads: Threads = 2,
    output: Annotated[
        Path | None, typer.Option(help="JSON file of the figures. [results/bench_classify.json]")
    ] = None,
    quick: Quick = False,
) -> None:
    """Compare classification with the torch model and CTranslate2's encoder, on the same weights.

    CTranslate2 has no classifiers: it runs the encoder, numpy the rest. onnxruntime is left out.
    """
    require_torch("glassformer bench classify")
    from glassformer.bench.classify import Plan, bench_classify

    plan = Plan(threads, 1, 4, pause=0.0) if quick else Plan(threads, rounds, limit)
    with progress("measuring", plan.steps) as tick:
        report = bench_classify(model, plan, typed(), file, tick)
    show(report, output or figures("bench_classify", quick))


@app.command()
def start(
    times: Annotated[int, typer.Option(min=1, help="Runs of each command.")] = 10,
    model: Annotated[str | None, typer.Option(help="A translator. [en-fr, bundled]")] = None,
    output: Annotated[
        Path | None, typer.Option(help="JSON file of the figures. [results/bench_start.json]")
    ] = None,
    quick: Quick = False,
) -> None:
    """Measure seconds and peak memory of one `translate` and of `--help`, and of a first run.

    The first run has an empty cache folder and compiles everything that it needs.
    """
    from glassformer.bench.start import Plan, bench_start

    plan = Plan(1 if quick else times, model)
    with progress("measuring", plan.steps) as tick:
        report = bench_start(plan, typed(), tick)
    show(report, output or figures("bench_start", quick))


@app.command("same-bits")
def same_bits(
    model: Annotated[str, typer.Option(help="A translator: a run, or a bundled one.")] = "en-fr",
    source: Annotated[
        Path | None,
        typer.Option(
            help="Sentences, one a line. [news of wmt14, or Multi30k for its models, if "
            "$GLASSFORMER_DATA has it; else the embedded grammar]"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Sentences, at most.")] = 1_014,
    beam: Annotated[int, typer.Option(min=2, help="Beam size, besides greedy search.")] = 5,
    quick: Quick = False,
) -> None:
    """Check that output and score are equal to the last bit in any batch; exit code 1 if not.

    Each sentence alone on one thread is compared with batches of 1, 7, 32 and 64 in shuffled order
    on one and two threads, in fp32 and INT8, greedily and with a beam.
    """
    from glassformer.bench.same_bits import Plan, compare

    plan = Plan(4, beam, (1, 3)) if quick else Plan(limit, beam)
    with progress("comparing", plan.steps) as tick:
        name, count, comparisons = compare(model, plan, source, tick)
    print(f"{model}, {count:,} sentences of {name}")
    print(f"batches of {', '.join(map(str, plan.batches))}, shuffled, 1 and 2 threads")
    for one in comparisons:
        print(f"  {one!s:<16} {len(one.differing):,} of {count:,} differ")
    differing = set[int]().union(*(one.differing for one in comparisons))
    print(f"{len(differing):,} of {count:,} differ")
    if differing:
        raise typer.Exit(1)


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
    output: Annotated[Path | None, typer.Option(help="JSON file of figures and curves.")] = None,
    figure: Annotated[Path | None, typer.Option(help="File of the picture: .svg or .png.")] = None,
) -> None:
    """Report when validation first reached a BLEU, by minutes and by target tokens."""
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
    command = typed()
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
    output: Annotated[Path, typer.Option(help="File of the picture: .svg or .png.")] = Path(
        "course.svg"
    ),
) -> None:
    """Draw loss, validation, learning rate and speed of runs against minutes."""
    from glassformer.bench.course import draw

    draw(runs, output)
    print(f"written to {output}")


def _trained(settings: RunSettings, name: str, target: float) -> Path:
    """Train a recipe until the BLEU is reached or the recipe ends; return the folder of the run."""
    from glassformer.bench.trials import claim
    from glassformer.cli.train import carry_out

    folder = Path("runs/time-to-bleu") / name
    settings = settings.replace(train={"metric": "bleu"})
    resume = claim(folder, settings)
    carry_out(settings.replace(train={"target": target}), folder, resume)
    return folder
