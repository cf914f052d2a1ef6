"""`glassformer lab`: claims about the Transformer as experiments."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from glassformer.cli import options as o
from glassformer.cli.verb import Verb
from glassformer.errors import DataError
from glassformer.extras import require_torch
from glassformer.output import save_text, writing
from glassformer.progress import columns

if TYPE_CHECKING:
    from glassformer.evaluate.card import Sheet
    from glassformer.lab.experiment import Experiment
    from glassformer.lab.finding import Finding

WIDTH = 120  # columns of the tables
RESULTS = Path("results/lab")
Folder = Annotated[Path, typer.Option("--output", metavar="FOLDER", help="Folder of the results.")]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def lab() -> None:
    """Run experiments. Each states a claim and a rule, measures, and judges by that rule."""


@app.command("list", cls=Verb)
def list_experiments(output: Folder = RESULTS) -> None:
    """List the experiments, with the verdicts of past runs."""
    from glassformer.lab import experiments, finding

    table = RichTable("name", "claim", "verdict", box=SIMPLE_HEAD)
    for name in experiments.names():
        path = output / f"{name}.json"
        verdict = finding.load(path).outcome if path.exists() else "not run"
        table.add_row(name, experiments.claim(name), verdict)
    Console(width=columns(WIDTH), highlight=False).print(table)


@app.command(cls=Verb)
def run(
    chosen: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME", help="Names of `lab list`, files of your own (.py), or all."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Use toy sizes, to test an experiment in seconds.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Runs of each arm, with different seeds.",
            show_default="the experiment's own; 2 with --quick",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Runs at the same time.", show_default="2; 1 with --quick"
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            help="Device of the models that learn: cpu, cuda, cuda:1, mps, or auto, the best one.",
        ),
    ] = "cpu",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to write.",
            show_default="results/lab; results/lab/quick with --quick",
        ),
    ] = None,
) -> None:
    """Run experiments; write NAME.json and NAME.svg."""
    require_torch("glassformer lab")

    from glassformer import picture
    from glassformer.device import resolve
    from glassformer.lab import experiments

    picture.check()
    device = str(resolve(device))  # an absent one is an error before the work
    output = output or (RESULTS / "quick" if quick else RESULTS)
    names = experiments.names() if chosen == ["all"] else chosen
    found = [experiments.find(name) for name in names]  # all of them, before any is run
    with writing(output):  # an unwritable folder is an error before the work
        output.mkdir(exist_ok=True)
    for experiment in found:
        carry_out(experiment, output, quick, seeds, threads, device)


def carry_out(
    experiment: "Experiment",
    output: Path,
    quick: bool,
    seeds: int | None,
    threads: int | None,
    device: str,
) -> None:
    """Run an experiment, print its result and say where it was written."""
    from glassformer.api.lab import carry_out
    from glassformer.evaluate.card import show

    command = o.written_command()
    finding = carry_out(experiment, quick, seeds, threads, device, output, command, True)
    show(sheet(finding), Console(width=columns(WIDTH), highlight=False))
    path = output / f"{experiment.name}.json"
    print(f"written: {path}, {path.with_suffix('.svg')}\n")


def sheet(finding: "Finding") -> "Sheet":
    """Return the claim and the rule, the figures, and the verdict."""
    from glassformer.evaluate.card import Sheet, facts
    from glassformer.lab.report import LABELS, tables

    stated = {label.lower(): finding.stated[name] for name, label in LABELS.items()}
    shown = [facts("", stated), *tables(finding)]
    notes = [f"verdict: {finding.outcome}. {finding.verdict.because}"]
    notes += [f"{finding.seconds:,.0f} seconds, {len(finding.budget.seeds)} seeds"]
    return Sheet(finding.stated["title"], shown, notes=notes)


@app.command(cls=Verb)
def report(output: Folder = RESULTS) -> None:
    """Write all results of a folder as one HTML page."""
    require_torch("glassformer lab")

    from glassformer.lab import experiments, finding
    from glassformer.lab.page import page

    paths = sorted(output.glob("*.json"), key=lambda p: (experiments.place(p.stem), p.stem))
    if not paths:
        raise DataError(
            f"There are no results in {output}.",
            "The report is made of what `glassformer lab run` has written there.",
            "Begin with `glassformer lab run scaling`, or name their folder by --output.",
        )
    pictures = [path.with_suffix(".svg") for path in paths]
    texts = [path.read_text("utf-8") if path.exists() else None for path in pictures]
    findings = [finding.load(path) for path in paths]
    place = output / "report.html"
    save_text(place, page(list(zip(findings, texts, strict=True))))
    print(f"written: {place} ({', '.join(path.stem for path in paths)})")
