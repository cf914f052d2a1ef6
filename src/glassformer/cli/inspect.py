"""`glassformer inspect`: what a model does with one text, and what its heads do over many."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as o
from glassformer.cli.evaluate import WIDTH
from glassformer.cli.progress import progress
from glassformer.cli.text import lines
from glassformer.errors import SettingsError
from glassformer.extras import require_torch

if TYPE_CHECKING:
    from glassformer.evaluate.card import Table
    from glassformer.evaluate.examples import Examples
    from glassformer.inspect.masking import HeadIndex
    from glassformer.inspect.statistics import HeadFigures, HeadStatistics
    from glassformer.inspect.trace import Trace
    from glassformer.pipeline import Pipeline, Translator

REPORT = Path("inspect.html")
TRIALS = 1_000  # of the paired test
EXTRA = {  # columns that not all heads have: title and form
    "mutual_information": ("bits", "{:.2f}"),
    "importance": ("ΔBLEU", "{:+.2f}"),
    "importance_p": ("p", "{:.3f}"),
}


def inspect(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run, a checkpoint or one of `models`.")
    ],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to look at it reading.")
    ] = None,
    to: o.MainTo = None,
    output: Annotated[
        Path | None, typer.Option(help=f"The report, one HTML file. [{REPORT}]")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Pictures of it as SVG.")
    ] = None,
    png: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The same as PNG.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Make it say this instead of searching.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Instead of TEXT: figures of heads over these lines.")
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="What they should become: also what each head is worth in BLEU."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many lines.")] = None,
    skip_bad: o.SkipBad = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="The trace (docs/trace.md) or the figures.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Every cell, or every head, a line.")] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Width of the search. [5; 1 of a corpus]")
    ] = None,
    truncate: o.Truncate = False,
    int8: o.Int8Weights = False,
    threads: o.TorchThreads = 2,
) -> None:
    """Show what MODEL does with TEXT: attention, the search, what the answer hangs on.

    With --corpus, figures of every head over many lines: how sharp it is, how far it looks, which
    place it looks at, which other head does the same, how much its links tell. With --reference
    also the change in BLEU when one head at a time is masked, which translates the corpus once for
    each head.
    """
    check(text, corpus)
    alone = "It is about one text."
    o.not_with("--corpus", corpus is not None, alone, output=output, svg=svg, png=png)
    o.not_with("--corpus", corpus is not None, alone, target=target)
    o.only_with("--corpus", corpus is not None, reference=reference, limit=limit)
    o.not_with("--target", target is not None, "Nothing is searched for.", beam=beam)
    o.only_with("--corpus", corpus is not None, skip_bad=skip_bad or None)

    require_torch("glassformer inspect")

    from glassformer import picture
    from glassformer.pipeline import Translator, load

    if svg or png:
        picture.check()
    loaded = load(model, int8 or None, engine="torch", threads=threads)
    if isinstance(loaded, Translator):
        loaded = loaded.towards(to or loaded.targets[0])
    else:
        o.not_with(model, True, "Only a translator has a target language.", to=to)
    if text is not None:
        text = " ".join(line.text for chunk in lines([text], None) for line in chunk)
        trace = traced(model, loaded, text, target, beam, truncate)
        show_trace(trace, output or REPORT, {"svg": svg, "png": png}, json_file, csv)
    else:
        assert corpus is not None
        if not isinstance(loaded, Translator):
            o.not_with(model, True, "Only a translator searches for what it says.", beam=beam)
        examples = lines_of(loaded, corpus, reference, limit, truncate, skip_bad)
        found = statistics(loaded, examples, reference is not None, beam or 1, truncate)
        show_statistics(model, found, examples, json_file, csv)


def check(text: str | None, corpus: Path | None) -> None:
    if (text is None) == (corpus is None):
        given = "Neither a text nor --corpus is" if text is None else "A text and --corpus are both"
        raise SettingsError(
            f"{given} given.",
            "A text is looked at closely; of a corpus, heads are described in figures.",
            'For example: glassformer inspect runs/demo "The boy sees the dog."',
        )


# One text


def traced(
    name: str,
    model: "Pipeline",
    text: str,
    target: str | None,
    beam: int | None,
    truncate: bool,
) -> "Trace":
    from glassformer.inspect.trace import trace_of
    from glassformer.pipeline import Classifier

    if isinstance(model, Classifier):
        why = "A classifier says nothing and searches for nothing."
        o.not_with(name, True, why, target=target, beam=beam)
        return trace_of(model, text, name=name, truncate=truncate)
    options = {} if target is not None else {"beam_size": beam or 5}
    return trace_of(model, text, target, name=name, truncate=truncate, **options)


def show_trace(
    trace: "Trace",
    report: Path,
    folders: dict[str, Path | None],
    json_file: Path | None,
    csv: Path | None,
) -> None:
    from glassformer.inspect.pictures import save_all
    from glassformer.inspect.report import summary, write_report
    from glassformer.inspect.tables import attention_csv
    from glassformer.output import save_text

    for name, value in summary(trace).items():
        print(f"{name:<16} {' '.join(value.split())}")
    write_report(trace, report)
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


# Many texts


def lines_of(
    model: "Pipeline",
    corpus: Path,
    reference: Path | None,
    limit: int | None,
    truncate: bool,
    skip_bad: bool,
) -> "Examples":
    from glassformer.data.corpus import TextFiles
    from glassformer.evaluate.examples import check_fit, from_files
    from glassformer.pipeline import Translator

    if reference and not isinstance(model, Translator):
        raise SettingsError(
            "--reference goes with a translator only.",
            "It is what a text should be translated to.",
            "Leave it out, or name the run of a translator.",
        )
    paths = (corpus, reference) if reference else (corpus,)
    examples = from_files(TextFiles(paths, format="lines"), limit, skip_bad=skip_bad)
    if not truncate:
        longest = model.settings.data.max_length
        check_fit([row[0] for row in examples.rows], model.tokenizer, longest)
        if reference and isinstance(model, Translator):
            check_fit([row[1] for row in examples.rows], model.target_tokenizer, longest)
    return examples


def statistics(
    model: "Pipeline", examples: "Examples", with_importance: bool, beam: int, truncate: bool
) -> "HeadStatistics":
    from glassformer.inspect.statistics import head_statistics
    from glassformer.pipeline import Translator

    sources = [row[0] for row in examples.rows]
    targets = [row[-1] for row in examples.rows]
    if isinstance(model, Translator) and not with_importance:
        targets = model.translate(sources, beam, split=False, typeset=False, truncate=truncate)
    texts = list(zip(sources, targets, strict=True))
    with progress("reading", len(texts)) as tick:
        found = head_statistics(model, texts, truncate=truncate, tick=tick)
    if isinstance(model, Translator) and with_importance:
        found = found.with_importance(*worth(model, sources, targets, beam, truncate))
    return found


def worth(
    model: "Translator", sources: list[str], references: list[str], beam: int, truncate: bool
) -> "tuple[float, dict[HeadIndex, tuple[float, float | None]]]":
    """BLEU, and without each head its change and the p of that."""
    from glassformer.evaluate.beams import paired_test
    from glassformer.evaluate.bleu import bleu
    from glassformer.inspect.masking import head_indices, without_each

    def say() -> list[str]:
        return model.translate(sources, beam, split=False, typeset=False, truncate=truncate)

    whole = say()
    with progress("masking heads", len(head_indices(model.model))) as tick:
        said = without_each(model.model, say, tick)
    systems = {1: whole} | dict(enumerate(said.values(), 2))
    p_values = paired_test(systems, references, TRIALS)[0]["BLEU"]
    score = bleu(whole, references)
    return score, {
        place: (bleu(texts, references) - score, p_values.get(number))
        for number, (place, texts) in enumerate(said.items(), 2)
    }


def show_statistics(
    model: str,
    found: "HeadStatistics",
    examples: "Examples",
    json_file: Path | None,
    csv: Path | None,
) -> None:
    from rich.console import Console

    from glassformer.evaluate.card import Sheet, show
    from glassformer.inspect.tables import heads_csv
    from glassformer.machine import machine
    from glassformer.output import save_text

    command = shlex.join(["glassformer", *sys.argv[1:]])
    kinds = list(found.divergences)
    tables = [table(kind, [h for h in found.heads if h.kind == kind]) for kind in kinds]
    title = f"Heads of {model} over {found.texts:,} texts"
    show(Sheet(title, tables, {}, notes(found)), Console(width=WIDTH, highlight=False))
    if json_file:
        content = {
            "command": command,
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


def notes(found: "HeadStatistics") -> list[str]:
    """What the columns mean."""
    told = [
        "entropy in bits, distance in tokens, places in shares of attention",
        "nearest: the head that looks most alike; apart and mean: the Jensen–Shannon divergence "
        "from it and from all others, in bits (0 alike, 1 disjoint)",
    ]
    if any(head.mutual_information is not None for head in found.heads):
        told.append("bits: mutual information of the words that the head links")
    if found.bleu is not None:
        count, by_chance = len(found.heads), round(len(found.heads) * 0.05)
        told += [
            f"BLEU of the whole model: {found.bleu:.2f}; ΔBLEU: its change without the head",
            "p: of such a change by chance (paired approximate randomisation); of "
            f"{count} heads that do nothing about {by_chance} would have p < 0.05",
        ]
    return told


def table(kind: str, heads: "list[HeadFigures]") -> "Table":
    from glassformer.evaluate.card import Table

    places = list(heads[0].places)
    columns = ["head", "entropy", "distance", *places, "role", "nearest", "apart", "mean"]
    rows = [
        [
            one.name,
            f"{one.entropy:.2f}",
            f"{one.distance:.2f}",
            *(f"{one.places[place]:.2f}" for place in places),
            one.role or "–",
            one.nearest,
            f"{one.divergence:.2f}",
            f"{one.mean_divergence:.2f}",
        ]
        for one in heads
    ]
    for name, (title, form) in EXTRA.items():
        values = [getattr(one, name) for one in heads]
        if any(value is not None for value in values):
            columns.append(title)
            for row, value in zip(rows, values, strict=True):
                row.append("–" if value is None else form.format(value))
    return Table(f"{kind} attention", columns, rows)
