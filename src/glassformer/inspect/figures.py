"""Pictures, by matplotlib, which only these functions need."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from glassformer.errors import MissingPackageError


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingPackageError("matplotlib", "A picture", "plots") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def alignment_figure(
    attention: Float[Tensor, "m n"],
    source_words: Sequence[str],
    target_words: Sequence[str],
    gold: Iterable[tuple[int, int]],
    title: str,
    path: Path,
) -> None:
    """Attention between words as shades, the true links as frames: the shade should fill them."""
    pyplot = _pyplot()
    width, height = 2 + 0.45 * len(source_words), 1.6 + 0.4 * len(target_words)
    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    shades = axes.imshow(attention.numpy(), cmap="Blues", vmin=0, vmax=1)
    for source, target in gold:
        frame = (source - 0.5, target - 0.5)
        axes.add_patch(pyplot.Rectangle(frame, 1, 1, fill=False, edgecolor="#d1495b", lw=2))
    axes.set_xticks(range(len(source_words)), source_words, rotation=45, ha="right")
    axes.set_yticks(range(len(target_words)), target_words)
    axes.set_title(title, fontsize=10)
    figure.colorbar(shades, ax=axes, label="attention", shrink=0.8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


# Links between words

RIGHT, WRONG, MISSED = "#2f6db5", "#d1495b", "#9a9a9a"
LETTER = 0.095  # inches that a letter of the links' words is wide


def check_figures() -> None:
    """A package that is missing is missed before the work."""
    _pyplot()


def links_figure(
    attention: Float[Tensor, "m n"],
    links: Iterable[tuple[int, int]],
    source_words: Sequence[str],
    target_words: Sequence[str],
    title: str,
    paths: Iterable[Path],
    gold: Iterable[tuple[int, int]] | None = None,
) -> None:
    """Two rows of words with lines between them, and below it the attention that they come from.

    A line is as strong as the attention. With the truth wrong links are red, missing ones dashed.
    """
    pyplot = _pyplot()
    found = set(links)
    truth = found if gold is None else set(gold)
    m, n = len(target_words), len(source_words)
    rows = [_centres(words) for words in (source_words, target_words)]
    widest = max(ends[-1] for _, ends in rows)
    width, height = max(widest * LETTER, 2.6 + 0.36 * n) + 0.4, 2.0 + 1.4 + 0.3 * m
    options = {"svg.hashsalt": "glassformer", "svg.fonttype": "path"}  # the same file every time
    with pyplot.rc_context(options):
        figure, (above, below) = pyplot.subplots(
            2, figsize=(width, height), height_ratios=[1.4, 2.0 + 0.3 * m], layout="constrained"
        )
        _draw_links(above, attention, found, truth, (source_words, target_words), rows, widest)
        shades = below.imshow(attention.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for source, target in found:
            colour = RIGHT if (source, target) in truth else WRONG
            frame = (source - 0.5, target - 0.5)
            below.add_patch(pyplot.Rectangle(frame, 1, 1, fill=False, edgecolor=colour, lw=1.6))
        below.set_xticks(range(n), source_words, rotation=45, ha="right", rotation_mode="anchor")
        below.set_yticks(range(m), target_words)
        figure.colorbar(shades, ax=below, label="attention", shrink=0.8)
        figure.suptitle(title, fontsize=10)
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=120, metadata=metadata)
        pyplot.close(figure)


def _centres(words: Sequence[str]) -> tuple[list[float], list[int]]:
    """Where words of one width a letter have their middles and their ends."""
    ends = list(accumulate((len(word) + 2 for word in words), initial=0))
    return [(a + b - 2) / 2 for a, b in pairwise(ends)], ends


def _draw_links(
    axes: Any,
    attention: Float[Tensor, "m n"],
    found: set[tuple[int, int]],
    truth: set[tuple[int, int]],
    words: tuple[Sequence[str], Sequence[str]],
    rows: list[tuple[list[float], list[int]]],
    widest: int,
) -> None:
    # Both rows in the middle, so that lines are steep where the order is the same.
    places = [[x + (widest - ends[-1]) / 2 for x in centres] for centres, ends in rows]
    for height, texts, xs, side in zip((1, 0), words, places, ("bottom", "top"), strict=True):
        for text, x in zip(texts, xs, strict=True):
            axes.text(x, height, text, family="monospace", size=10, ha="center", va=side)
    for source, target in found | truth:
        ends = [places[0][source], places[1][target]], [0.98, 0.02]
        if (source, target) not in found:
            axes.plot(*ends, color=MISSED, lw=1, ls=(0, (3, 2)))
            continue
        strength = float(attention[target, source])
        colour = RIGHT if (source, target) in truth else WRONG
        axes.plot(*ends, color=colour, lw=0.6 + 2 * strength, alpha=0.3 + 0.7 * min(1.0, strength))
    axes.set(xlim=(-1, widest), ylim=(-0.25, 1.25))
    axes.axis("off")
