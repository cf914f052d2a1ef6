"""`glassformer classify`: text in, label and probability out, line by line."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as o
from glassformer.cli.models import default
from glassformer.cli.text import answer_lines, check_input, lines
from glassformer.pretrained import CLASSIFIER
from glassformer.progress import say

if TYPE_CHECKING:
    from glassformer.pipeline import Classification


def classify(
    texts: o.Texts = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="A run, a checkpoint or one of `models`.",
            show_default=CLASSIFIER,
        ),
    ] = None,
    file: o.File = None,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="Print the probabilities of all labels, as JSON per line."
        ),
    ] = False,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate/--no-truncate",
            help="Cut texts that are too long for the model, as those of training; or refuse them.",
            show_default="cut",
        ),
    ] = True,
    int8: o.Int8 = False,
    threads: o.Threads = None,
    device: o.Device = "cpu",
    batch_tokens: o.BatchTokens = 4_096,
) -> None:
    """Label texts, or the lines of a file or of standard input: label, tab, probability.

    An empty line gives an empty line. Texts that are too long are cut, and counted at the end.
    """
    check_input(texts, file)
    named = default(CLASSIFIER, OWN) if model is None else model

    from glassformer.pipeline import load_classifier
    from glassformer.pipeline.batches import check_batch_tokens

    check_batch_tokens(batch_tokens)
    classifier = load_classifier(named, int8 or None, threads=threads, device=device)

    cut = 0

    def answer(some: list[str]) -> list[list[str]]:
        nonlocal cut
        subwords = classifier.tokenizer.encode(some)
        full = [text for text, ids in zip(some, subwords, strict=True) if ids]
        found = classifier.classify(full, batch_tokens=batch_tokens, truncate=truncate)
        cut += sum(one.cut > 0 for one in found)
        told = iter(found)
        return [[_told(next(told), probabilities) if ids else ""] for ids in subwords]

    answer_lines(lines(texts, file), answer, TOO_LONG)
    if cut:
        say(f"note: cut to {classifier.max_length:,} subwords: {cut:,} texts (--no-truncate)")


OWN = "--model runs/imdb. To train that one: glassformer train imdb."
TOO_LONG = "Make it shorter; or leave --no-truncate out: long texts were cut in training, too."


def _told(found: "Classification", probabilities: bool) -> str:
    if probabilities:
        shown = {label: round(p, 6) for label, p in found.probabilities.items()}
        return json.dumps(shown, ensure_ascii=False)
    return f"{found.label}\t{found.probability:.4f}"
