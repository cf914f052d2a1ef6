"""`glassformer inspect`: attention and search of one text, or figures of heads over many."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from glassformer.cli import options as o
from glassformer.cli.text import lines
from glassformer.errors import SettingsError
from glassformer.extras import require_torch
from glassformer.output import save_text
from glassformer.progress import columns

if TYPE_CHECKING:
    from glassformer.evaluate.examples import Examples
    from glassformer.inspect.statistics import HeadStatistics
    from glassformer.inspect.trace import Trace
    from glassformer.pipeline import Pipeline

REPORT = Path("inspect.html")


def inspect(
    model: o.Model,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="Text to translate, classify, embed or continue."),
    ] = None,
    to: o.MainTo = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the report as one HTML page.", show_default=str(REPORT)
        ),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write its pictures as SVG.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write its pictures as PNG.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Force this output instead of searching for one."),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead of TEXT: figures of every head over these lines."
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Reference translations of --corpus: adds the BLEU that each head contributes.",
        ),
    ] = None,
    limit: o.Limit = None,
    skip_bad: o.SkipBad = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the trace (docs/trace.md), or the figures."
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a table: a row per attention weight, or per head."
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Beam size of the search; 1 is greedy.",
            show_default="5; 1 with --corpus",
        ),
    ] = None,
    truncate: o.Truncate = False,
    int8: o.Int8Weights = False,
    threads: o.TorchThreads = 2,
    device: o.Device = "cpu",
) -> None:
    """Show attention, search and saliency of MODEL on TEXT, as one HTML page.

    With --corpus, print figures of every head over many lines: how sharp it is, how far it looks,
    which position it attends to, which other head is most similar, and the mutual information of
    its links. With
    --reference also the change in BLEU when one head at a time is masked, which translates the
    corpus once for each head.
    """
    check(text, corpus)
    alone = "These options are for one text."
    many = corpus is not None
    o.not_with("--corpus", many, alone, output=output, svg=svg, png=png, target=target)
    o.only_with("--corpus", many, reference=reference, limit=limit, skip_bad=skip_bad or None)
    o.not_with("--target", target is not None, "Nothing is searched for.", beam=beam)

    require_torch("glassformer inspect")

    from glassformer import picture
    from glassformer.api.inspect import inspect as traced
    from glassformer.api.inspect import inspect_heads
    from glassformer.pipeline import load

    if svg or png:
        picture.check()
    loaded = load(model, int8 or None, "torch", threads, device)
    check_kind(model, loaded, reference, to=to, target=target, beam=beam)
    how: dict[str, Any] = {"to": to, "truncate": truncate}
    if corpus is None:
        assert text is not None
        one = " ".join(line.text for chunk in lines([text], None) for line in chunk)
        trace = traced(loaded, one, target, beam_size=beam, name=model, **how)
        show_trace(trace, output or REPORT, {"svg": svg, "png": png}, json_file, csv)
        return
    examples = read(corpus, reference, limit, skip_bad)
    sources = [row[0] for row in examples.rows]
    references = [row[1] for row in examples.rows] if reference else None
    found = inspect_heads(loaded, sources, references, beam_size=beam or 1, **how)
    show_heads(model, found, examples, json_file, csv)


def check(text: str | None, corpus: Path | None) -> None:
    if (text is None) == (corpus is None):
        given = "Neither a text nor --corpus is" if text is None else "A text and --corpus are both"
        raise SettingsError(
            f"{given} given.",
            "One text is shown in detail; over a corpus every head is described in figures.",
            'For example: glassformer inspect runs/demo "The boy sees the dog."',
        )


def check_kind(name: str, model: "Pipeline", reference: Path | None, **options: object) -> None:
    """Refuse options that do not apply to a model of this kind."""
    from glassformer.pipeline import Generator, Translator

    if isinstance(model, Translator):
        return
    if reference is not None:
        raise SettingsError(
            "--reference goes with a translator only.",
            "It is the right translation of each line.",
            "Leave it out, or name the run of a translator.",
        )
    o.not_with(name, True, "Only a translator has a target language.", to=options.pop("to"))
    if not isinstance(model, Generator):
        o.not_with(name, True, f"A {model.settings.model.kind} does not search.", **options)


def read(corpus: Path, reference: Path | None, limit: int | None, skip_bad: bool) -> "Examples":
    from glassformer.data.corpus import TextFiles
    from glassformer.evaluate.examples import from_files

    paths = (corpus, reference) if reference else (corpus,)
    return from_files(TextFiles(paths, format="lines"), limit, skip_bad=skip_bad)


def show_trace(
    trace: "Trace",
    report: Path,
    folders: dict[str, Path | None],
    json_file: Path | None,
    csv: Path | None,
) -> None:
    from glassformer.inspect.pictures import save_all
    from glassformer.inspect.report import summary
    from glassformer.inspect.tables import attention_csv

    for name, value in summary(trace).items():
        print(f"{name:<16} {' '.join(value.split())}")
    trace.save(report)
    print(f"{'report':<16} {report}")
    for suffix, folder in folders.items():
        if folder:
            paths = save_all(trace, folder, suffix)
            print(f"{suffix:<16} {folder}: {', '.join(path.name for path in paths)}")
    if json_file:
        save_text(json_file, trace.to_json() + "\n")
        print(f"{'json':<16} {json_file}")
    if csv:
        save_text(csv, attention_csv(trace))
        print(f"{'csv':<16} {csv}")


def show_heads(
    model: str,
    found: "HeadStatistics",
    examples: "Examples",
    json_file: Path | None,
    csv: Path | None,
) -> None:
    from glassformer.evaluate.card import show
    from glassformer.evaluate.evaluation import WIDTH
    from glassformer.inspect.head_sheet import heads_sheet
    from glassformer.inspect.tables import heads_csv
    from glassformer.machine import machine

    show(heads_sheet(model, found), Console(width=columns(WIDTH), highlight=False))
    if json_file:
        content = {
            "command": o.written_command(),
            "model": model,
            "checksums": examples.checksums,
            "machine": machine(),
            **found.to_json(),
        }
        save_text(json_file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        print(f"json {json_file}")
    if csv:
        save_text(csv, heads_csv(found.heads))
        print(f"csv {csv}")
