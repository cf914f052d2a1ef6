"""`glassformer align`: which words translate which, by cross-attention."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from glassformer.cli import options as o
from glassformer.cli.text import lines
from glassformer.errors import DataError
from glassformer.extras import require_torch
from glassformer.progress import columns, say

if TYPE_CHECKING:
    from glassformer.inspect.aligner import Alignment
    from glassformer.inspect.alignment_scores import AlignmentScores


def align(
    model: o.Model,
    source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Texts to align, one per line.")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Translations of --source, one per line.",
            show_default="those of the model",
        ),
    ] = None,
    to: o.MainTo = None,
    tokenised: Annotated[
        bool,
        typer.Option(
            "--tokenised", help="Words are separated by spaces alone; punctuation is not split off."
        ),
    ] = False,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD",
            help="Attention to read: 3.2, 3.2+1, 3:share or all+1:share.",
            show_default="chosen by the data",
        ),
    ] = None,
    beam: o.Beam = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the links here.", show_default="standard output"),
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the words as `source ||| target` per line."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Draw the first sentences, as SVG and PNG."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Sentences to draw.", show_default="10"),
    ] = None,
    sentences: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Sentences of the grammar to choose heads on, and as many others to measure on.",
            show_default="1000",
        ),
    ] = None,
    json_file: o.Json = None,
    markdown: o.Markdown = None,
    int8: o.Int8Weights = False,
    threads: o.TorchThreads = 2,
    device: o.Device = "cpu",
    batch_tokens: o.BatchTokens = 2_048,
) -> None:
    """Score the word alignments of MODEL's attention, or align your own text.

    Without --source, the embedded grammar is aligned, whose true alignment is known. The table has
    the error rate of every head and average; the best is chosen on one part, measured on another.

    With --source, each line gives the links between its words, such as `0-0 1-2`: source word,
    target word, counted from 0. Punctuation is split off: l' homme, king 's, do n't, est-ce, 3.5.

    A HEAD is layer.head; a layer alone is the average of its heads, `all` that of all heads. +1
    reads it one step later; :share links words by their share of attention. By default, the head
    is the best one on the grammar for a model of the grammar. For others it is the average whose
    links have the most mutual information, or all:share for fewer than 30 lines.
    """
    own = source is not None
    o.only_with("--source", own, target=target, output=output, words=words, beam=beam)
    o.only_with("--source", own, tokenised=tokenised or None, to=to)
    o.not_with("--target", target is not None, "Nothing is searched for.", beam=beam)
    why = "Your own text has no known true alignment."
    o.not_with("--source", own, why, sentences=sentences, json=json_file, markdown=markdown)
    o.only_with("--figure", figure is not None, limit=limit)

    require_torch("glassformer align")

    from glassformer.api.align import align as aligned
    from glassformer.inspect.alignment_figures import PICTURES, check_folder

    if figure:
        check_folder(figure)
    options: dict[str, Any] = {
        "head": head, "int8": int8 or None, "threads": threads, "device": device,
        "batch_tokens": batch_tokens,
    }  # fmt: skip
    found: Alignment | AlignmentScores
    if source is None:
        command = o.written_command()
        found = aligned(model, sentences=sentences or 1_000, command=command, **options)
        tell_scores(found, json_file, markdown)
    else:
        sources, targets = texts_of(source), texts_of(target) if target else None
        check_counts(source, sources, target, targets)
        options |= {"to": to, "beam_size": beam or 5, "tokenised": tokenised}
        found = aligned(model, sources, targets, **options)
        tell_links(found, head, output, words)
    if figure:
        count = len(found.draw(figure, limit or PICTURES)) // 2
        say(f"{count} pictures, as SVG and as PNG, in {figure}")


def tell_scores(scores: "AlignmentScores", json_file: Path | None, markdown: Path | None) -> None:
    """Write the files, then print the tables."""
    from glassformer.evaluate.evaluation import WIDTH

    try:  # files first: a reader of the tables may stop early, as `head` does
        if json_file:
            content = json.dumps(scores.to_json(), indent=2, ensure_ascii=False)
            o.save(json_file, content + "\n")
        if markdown:
            o.save(markdown, scores.to_markdown())
    finally:
        scores.show(Console(width=columns(WIDTH), highlight=False))


def tell_links(
    found: "Alignment", head: str | None, output: Path | None, words: Path | None
) -> None:
    """Print or write the links of each line, and the head that was chosen."""
    if head is None:
        say(f"--head {found.head.name}: {found.head}, {found.reason}")
    links = "".join(f"{line}\n" for line in found.pharaoh())
    if words:
        o.save(words, "".join(f"{line}\n" for line in found.words()))
    if output:
        o.save(output, links)
    else:
        print(links, end="")


def texts_of(path: Path) -> list[str]:
    """Return the lines of a file; refuse one without lines."""
    found = [line.text for chunk in lines(None, path) for line in chunk]
    if not found:
        raise DataError(
            f"{path} has no lines.", "There is nothing to align.", "Name a file with text."
        )
    return found


def check_counts(
    source: Path, sources: list[str], target: Path | None, targets: list[str] | None
) -> None:
    if targets is not None and len(sources) != len(targets):
        raise DataError(
            f"{source} has {len(sources):,} lines, and {target} has {len(targets):,}.",
            "Each line is the translation of the line of the same number.",
            "Give two files with the same number of lines.",
        )
