"""`glassformer bench`: speed, memory and time to a score, as a table and as JSON."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from glassformer import recipes as recipes_of_package
from glassformer.cli import options as o
from glassformer.cli.verb import Verb
from glassformer.config import RunSettings
from glassformer.extras import require_torch
from glassformer.progress import columns, progress

if TYPE_CHECKING:
    from glassformer.bench.report import Report

app = typer.Typer(no_args_is_help=True)

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Use toy sizes, to test the command itself; write to results/quick."
    ),
]
Threads = Annotated[
    int, typer.Option(min=1, metavar="N", help="Threads of each program that is measured.")
]
Sentences = Annotated[
    Path | None,
    typer.Option(
        "--source",
        metavar="FILE",
        help="Sentences to translate, one per line.",
        show_default="news, or captions for models of Multi30k, if $GLASSFORMER_DATA has them; "
        "else the grammar",
    ),
]


def _json_option(name: str) -> Any:
    """Return the option of the JSON file that a benchmark writes by default."""
    return typer.Option(
        metavar="FILE", help="Write the figures as JSON.", show_default=f"results/{name}.json"
    )


@app.callback()
def bench() -> None:
    """Measure speed and memory beside peers, in turns. The worst ratio is printed last."""


@app.command(cls=Verb)
def model(
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Rounds; the best one counts.", show_default="7"),
    ] = None,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_model")] = None,
    quick: Quick = False,
) -> None:
    """Compare the torch model with nn.Transformer and Marian.

    It also times attention by length.
    """
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


def show(report: "Report", output: Path) -> None:
    report.save(output)
    console = print_tables(report)
    console.print(f"written to {output}")
    if report.worst_ratio is not None:
        console.print(f"worst ratio: {report.worst_ratio:.2f}")


def print_tables(report: "Report") -> Console:
    """Print the tables and notes of a report."""
    from glassformer.evaluate.card import show_table

    console = Console(width=columns(100), highlight=False)
    for table in report.tables:
        show_table(table, console)
    for note in report.notes:
        console.print(note)
    return console


@app.command(cls=Verb)
def train(
    recipe: Annotated[
        str, typer.Option(metavar="RECIPE", help="Recipe whose data is trained on.")
    ] = "multi30k",
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rounds; the best one counts.")
    ] = 3,
    updates: Annotated[int, typer.Option(min=1, metavar="N", help="Updates per round.")] = 6,
    threads: Threads = 2,
    device: o.Device = "cpu",
    output: Annotated[Path, typer.Option(metavar="FILE", help="Write the figures as JSON.")] = Path(
        "results/bench_train.json"
    ),
) -> None:
    """Compare training updates with nn.Transformer and Marian."""
    require_torch("glassformer bench train")
    import torch

    from glassformer.bench.train import Plan, bench_train
    from glassformer.cli.train import read_recipe
    from glassformer.data.prepare import prepare
    from glassformer.device import resolve

    torch.set_num_threads(threads)
    data = prepare(read_recipe(recipe, []))
    plan = Plan(updates, rounds, device=resolve(device))
    command = f"glassformer bench train --recipe {recipe} --rounds {rounds} --updates {updates}"
    command += "" if device == "cpu" else f" --device {device}"
    with progress("measuring", plan.steps) as tick:
        report = bench_train(data, plan, f"{command} --threads {threads}", tick)
    show(report, output)


@app.command(cls=Verb)
def decode(
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A translator, or a preset, which gets random weights. May be repeated.",
            show_default="vaswani2017-base and en-fr",
        ),
    ] = None,
    source: Sentences = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Reference translations of --source, for BLEU."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Sentences for translators, at most.")
    ] = 512,
    beam: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Beam size.",
            show_default="4 for presets, 5 for translators",
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Rounds of single sentences; batches have three times more."
        ),
    ] = 3,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_decode")] = None,
    quick: Quick = False,
) -> None:
    """Compare decoding with CTranslate2 and Hugging Face.

    All run the same weights; speed and memory are measured.

    Batches are of 1 and 32, greedy and beam. CTranslate2 runs with all threads on one batch and
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
        report = bench_decode(tasks, plan, o.written_command(), tick)
    show(report, output or figures("bench_decode", quick))


@app.command(cls=Verb)
def classify(
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="A classifier: a run or a bundled model.")
    ] = "sentiment",
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Texts, one per line.",
            show_default="IMDB's test_a if $GLASSFORMER_DATA has it, else random tokens",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Texts, at most.")] = 256,
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rounds; the best one counts.")
    ] = 5,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_classify")] = None,
    quick: Quick = False,
) -> None:
    """Compare classification with torch and CTranslate2.

    All run the same weights. CTranslate2 has no classifiers: it runs the encoder, numpy the rest.
    """
    require_torch("glassformer bench classify")
    from glassformer.bench.classify import Plan, bench_classify

    plan = Plan(threads, 1, 4, pause=0.0) if quick else Plan(threads, rounds, limit)
    with progress("measuring", plan.steps) as tick:
        report = bench_classify(model, plan, o.written_command(), file, tick)
    show(report, output or figures("bench_classify", quick))


@app.command(cls=Verb)
def start(
    times: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each command.")] = 10,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A translator.", show_default="en-fr")
    ] = None,
    output: Annotated[Path | None, _json_option("bench_start")] = None,
    quick: Quick = False,
) -> None:
    """Measure time and memory of starting the command line.

    It runs one `translate` and `--help`, and a first run.

    The first run has an empty cache folder and compiles everything that it needs.
    """
    from glassformer.bench.start import Plan, bench_start

    plan = Plan(1 if quick else times, model)
    with progress("measuring", plan.steps) as tick:
        report = bench_start(plan, o.written_command(), tick)
    show(report, output or figures("bench_start", quick))


@app.command(cls=Verb)
def busy(
    seconds: Annotated[
        float, typer.Option(min=0.5, metavar="S", help="Seconds of each measurement.")
    ] = 6.0,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Rounds; the median counts.")] = 3,
    threads: Threads = 2,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Busy jobs that are started beside.")
    ] = 2,
    demo: Annotated[
        bool, typer.Option("--demo", help="Train the demo beside the jobs, too: minutes more.")
    ] = False,
    output: Annotated[Path | None, _json_option("bench_busy")] = None,
    quick: Quick = False,
) -> None:
    """Compare how threads of training wait, beside busy jobs.

    It starts the jobs itself and takes about four minutes; nothing else should be running.
    """
    require_torch("glassformer bench busy")
    from glassformer.bench.busy import Plan, bench_busy, demo_beside, demo_note

    plan = Plan(seconds, rounds, threads, jobs)
    if quick:
        plan = Plan(0.5, 1, threads, jobs, batch_tokens=256)
    with progress("measuring", plan.steps) as tick:
        report = bench_busy(plan, o.written_command(), tick)
    if demo:
        report.notes.append(demo_note(demo_beside(plan), plan))
    show(report, output or figures("bench_busy", quick))


@app.command("same-bits", cls=Verb)
def same_bits(
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="A translator: a run or a bundled model.")
    ] = "en-fr",
    source: Sentences = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Sentences, at most.")] = 1_014,
    beam: Annotated[
        int, typer.Option(min=2, metavar="N", help="Beam size, besides greedy search.")
    ] = 5,
    quick: Quick = False,
) -> None:
    """Check that output is the same to the bit in any batch.

    Output and score of each sentence alone on one thread are compared with those in batches of 1,
    7, 32 and 64 in shuffled order on one and two threads, in fp32 and INT8, greedily and with a
    beam. The exit code is 1 if any differs.
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


@app.command(cls=Verb)
def faults(
    campaign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A campaign; repeat for several: kills, checkpoints, imports, inputs, servers, "
            "threads, memory, clock, requests.",
            show_default="all",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Random seed; another one makes other faults.")
    ] = 0,
    output: Annotated[Path | None, _json_option("bench_faults")] = None,
    quick: Quick = False,
) -> None:
    """Make faults on purpose and count what survives them.

    Runs are killed, checkpoints and inputs damaged, servers lie, threads share a model, memory is
    watched, clocks jump, requests to the server are damaged. The exit code is 1 if anything is
    lost, raises a traceback or hangs.
    """
    require_torch("glassformer bench faults")
    from glassformer.bench.faults.campaign import chosen
    from glassformer.bench.faults.table import CAMPAIGNS, bench_faults, steps

    campaigns = chosen(CAMPAIGNS, campaign or [])
    with progress("making faults", steps(campaigns, quick)) as tick:
        report, failures = bench_faults(campaigns, quick, seed, o.written_command(), tick)
    show(report, output or figures("bench_faults", quick))
    if failures:
        raise typer.Exit(1)


@app.command(cls=Verb)
def serve(
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="A translator: a run or a bundled model.")
    ] = "en-fr",
    source: Sentences = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Sentences, at most.")] = 512,
    clients: Annotated[
        int, typer.Option(min=1, metavar="N", help="Clients that ask at the same time.")
    ] = 200,
    seconds: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds that each server is asked for.")
    ] = 60.0,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_serve")] = None,
    quick: Quick = False,
) -> None:
    """Measure the server under load, beside CTranslate2.

    Clients in a second process ask over loopback, each for its next sentence as soon as it has its
    answer. Every answer is compared with the one that the same server gives to one client alone.
    The exit code is 1 if a request is lost or an answer differs.
    """
    require_torch("glassformer bench serve")
    from glassformer.bench.serve import Plan, bench_serve

    plan = (
        Plan(model, 4, 8, 0.3, threads) if quick else Plan(model, limit, clients, seconds, threads)
    )
    with progress("measuring", plan.steps) as tick:
        report, failures = bench_serve(plan, o.written_command(), source, tick)
    show(report, output or figures("bench_serve", quick))
    if failures:
        raise typer.Exit(1)


@app.command("time-to-bleu", cls=Verb)
def time_to_bleu(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders or logs of runs. A recipe is first trained in runs/time-to-bleu/, "
            "until the BLEU is reached.",
        ),
    ],
    target: Annotated[
        float, typer.Option(min=0.0, max=100.0, metavar="BLEU", help="The BLEU to reach.")
    ] = 55.0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write figures and curves as JSON.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the curves as .svg or .png.")
    ] = None,
) -> None:
    """Report minutes and tokens until runs reached a BLEU."""
    from glassformer import picture
    from glassformer.bench import time_to_bleu as bench
    from glassformer.cli.train import read_recipe
    from glassformer.evaluate.card import show as show_sheet
    from glassformer.evaluate.evaluation import WIDTH

    if figure is not None:
        picture.check(figure)
    recipes = {path: read_recipe(path, []) for path in runs if _is_recipe(path)}
    found = {path: bench.timed(path) for path in runs if path not in recipes}
    for path, settings in recipes.items():  # when all else is known to be there
        found[path] = bench.timed(_trained(settings, path.stem, target))
    timed = [found[path] for path in dict.fromkeys(runs)]
    command = o.written_command()
    show_sheet(bench.sheet(timed, target, command), Console(width=columns(WIDTH), highlight=False))
    if output is not None:
        content = json.dumps(bench.content(timed, target, command), indent=2, ensure_ascii=False)
        o.save(output, content + "\n")
    if figure is not None:
        bench.picture(timed, target, figure)


@app.command(cls=Verb)
def course(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs, or their logs.")
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="The picture: .svg or .png.")] = Path(
        "course.svg"
    ),
) -> None:
    """Draw loss, scores, rate and speed of runs over time."""
    from glassformer.bench.course import draw

    draw(runs, output)
    print(f"written to {output}")


def _is_recipe(path: Path) -> bool:
    return path.suffix == ".toml" or str(path) in recipes_of_package.names()


def _trained(settings: RunSettings, name: str, target: float) -> Path:
    """Train a recipe until the BLEU is reached or the recipe ends; return the folder of the run."""
    from glassformer.bench.trials import claim
    from glassformer.cli.train import carry_out

    folder = Path("runs/time-to-bleu") / name
    settings = settings.replace(train={"metric": "bleu"})
    resume = claim(folder, settings)
    carry_out(settings.replace(train={"target": target}), folder, resume)
    return folder


@app.command(cls=Verb)
def interop(
    work: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for fetched packages and models, 2 GB.")
    ],
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder with stories260K/ and bart-g2p/, which no package has."
        ),
    ] = None,
    output: Annotated[Path | None, _json_option("bench_interop")] = None,
    quick: Quick = False,
) -> None:
    """Compare imported models with their libraries."""
    require_torch("glassformer bench interop")
    from glassformer.bench.interop import Plan, bench_interop

    plan = Plan(work, weights, 10, 5) if quick else Plan(work, weights)
    with progress("comparing", plan.steps) as tick:
        command = f"glassformer bench interop{' --quick' if quick else ''}"
        report, failed = bench_interop(plan, command, tick)
    show(report, output or figures("bench_interop", quick))
    if failed:
        raise typer.Exit(1)
