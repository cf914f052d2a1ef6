"""Heat maps and links between words."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from glassformer.picture import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def printable(text: str) -> str:
    """Replace control characters and marks that change the text direction."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def draw_grid(
    axes: Any,
    cells: Float[Tensor, "m n"],
    rows: Sequence[str],
    columns: Sequence[str],
    colours: str = "Blues",
    lowest: float = 0.0,
) -> Any:
    shades = axes.imshow(
        cells.numpy(), cmap=colours, vmin=lowest, vmax=1, aspect="auto", interpolation="nearest"
    )
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(columns)), columns, parse_math=False, **turned)
    axes.set_yticks(range(len(rows)), rows, parse_math=False)
    return shades


# Links between words

RIGHT, WRONG, MISSED = "#2f6db5", "#d1495b", "#9a9a9a"
FONT: Any = {"family": "monospace", "size": 10, "parse_math": False}
LETTER = 0.095  # inches: width of a character of that font


def links_figure(
    attention: Float[Tensor, "m n"],
    links: Iterable[tuple[int, int]],
    source_words: Sequence[str],
    target_words: Sequence[str],
    title: str,
    gold: Iterable[tuple[int, int]] | None = None,
) -> "Figure":
    """Draw two rows of words with their links, and below them the attention.

    The width of a line is the attention. With `gold`, wrong links are red, missed ones dashed.
    """
    source_words, target_words = (
        [printable(word) for word in words] for words in (source_words, target_words)
    )
    found = set(links)
    truth = found if gold is None else set(gold)
    m, n = len(target_words), len(source_words)
    rows = [_centres(words) for words in (source_words, target_words)]
    widest = max(ends[-1] for _, ends in rows)
    width, height = max(widest * LETTER, 2.6 + 0.36 * n) + 0.4, 2.0 + 1.4 + 0.3 * m
    figure = new_figure(width, height)
    from matplotlib.patches import Rectangle

    above, below = figure.subplots(2, height_ratios=[1.4, 2.0 + 0.3 * m])
    _draw_links(above, attention, found, truth, (source_words, target_words), rows, widest)
    shades = draw_grid(below, attention, target_words, source_words)
    for source, target in sorted(found):
        colour = RIGHT if (source, target) in truth else WRONG
        frame = (source - 0.5, target - 0.5)
        below.add_patch(Rectangle(frame, 1, 1, fill=False, edgecolor=colour, lw=1.6))
    figure.colorbar(shades, ax=below, label="attention", shrink=0.8)
    figure.suptitle(title, fontsize=10, parse_math=False)
    return figure


def _centres(words: Sequence[str]) -> tuple[list[float], list[int]]:
    """Return the centres and the ends of words in a fixed-width font, in characters."""
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
    # Both rows are centred, so that links of equal order are nearly vertical.
    places = [[x + (widest - ends[-1]) / 2 for x in centres] for centres, ends in rows]
    for height, texts, xs in zip((1.05, -0.15), words, places, strict=True):
        for text, x in zip(texts, xs, strict=True):
            axes.text(x, height, text, **FONT, ha="center", va="baseline")
    for source, target in sorted(found | truth):
        ends = [places[0][source], places[1][target]], [0.98, 0.02]
        if (source, target) not in found:
            axes.plot(*ends, color=MISSED, lw=1, ls=(0, (3, 2)))
            continue
        strength = float(attention[target, source])
        colour = RIGHT if (source, target) in truth else WRONG
        axes.plot(*ends, color=colour, lw=0.6 + 2 * strength, alpha=0.3 + 0.7 * min(1.0, strength))
    axes.set(xlim=(-1, widest), ylim=(-0.25, 1.25))
    axes.axis("off")
