"""Pictures of word alignments: a folder of them, each as SVG and as PNG."""

from collections.abc import Sequence
from pathlib import Path

from glassformer import picture
from glassformer.data.grammar import AlignedPair
from glassformer.errors import DataError
from glassformer.inspect.alignment import Head, align
from glassformer.inspect.figures import links_figure
from glassformer.inspect.links import Links, TextPair
from glassformer.pipeline import Translator

PICTURES = 10  # sentences that are drawn where no number is given


def check_folder(folder: Path) -> None:
    """Refuse a folder that pictures cannot be written to, and a missing matplotlib."""
    picture.check()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written to: {error.strerror}.",
            "Pictures go to a folder that exists or can be made.",
            "Name another place.",
        ) from None


def draw(
    translator: Translator,
    head: Head,
    pairs: Sequence[TextPair | AlignedPair],
    folder: Path,
    limit: int = PICTURES,
    gold: Sequence[Links] | None = None,
) -> list[Path]:
    """Draw the links of the first pairs that have words, beside the true ones where known."""
    check_folder(folder)
    chosen = [i for i, p in enumerate(pairs) if p.source_words and p.target_words][:limit]
    digits = len(str(chosen[-1] + 1)) if chosen else 1
    found = align(translator, [pairs[i] for i in chosen], head)
    drawn = []
    for i, (attention, links) in zip(chosen, found, strict=True):
        truth, title = gold[i] if gold else None, str(head)
        if truth is not None:
            title += f": {len(links & truth)} of {len(truth)} true links, {len(links)} found"
        source, target = pairs[i].source_words, pairs[i].target_words
        figure = links_figure(attention, links, source, target, title, truth)
        for suffix in ("svg", "png"):
            path = folder / f"{i + 1:0{digits}}.{suffix}"
            picture.save(figure, path)
            drawn.append(path)
    return drawn
