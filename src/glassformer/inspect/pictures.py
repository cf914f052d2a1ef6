"""Figures of a trace.

Attention has the scale 0 to 1 in every figure, so that figures can be compared. Saliency, which has
no such scale, is divided by the largest magnitude of its row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.errors import InputError
from glassformer.inspect.figures import draw_grid, links_figure, printable
from glassformer.inspect.heads import distance, entropy
from glassformer.inspect.links import by_share, links
from glassformer.inspect.maps import Kind
from glassformer.inspect.rollout import rollout
from glassformer.inspect.saliency import rank_correlation
from glassformer.inspect.trace import Trace
from glassformer.inspect.words import Side, Word, merged
from glassformer.picture import new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAUTION = (
    "Attention is not explanation: it shows what the model attends to, not what its output\n"
    "depends on. Gradient × input estimates that to first order. Where they disagree, test."
)
TITLES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
FOR, AGAINST, UNSIGNED = "#2f6db5", "#d1495b", "#8a8a8a"
MAX_WORDS = 24  # of a classifier's text in a figure, which then is 8 inches high at most
MAX_LABEL = 20  # characters of a row or column label


@dataclass(frozen=True)
class View:
    """Tokens merged to words or not, with or without the marks <s> and </s>."""

    words: bool = False
    marks: bool = True

    def of(self, side: Side) -> tuple[Word, ...]:
        return side.groups(self.marks) if self.words else side.each(self.marks)


TOKENS = View()
PLAIN_WORDS = View(words=True, marks=False)


def shown(trace: Trace, kind: Kind, view: View) -> tuple[list[str], list[str], Tensor]:
    """Return row labels, column labels and the attention (layers, heads, rows, columns)."""
    if kind not in trace.attention:
        raise InputError(
            f"The trace has no {kind} attention.",
            f"A {trace.kind} has {', '.join(trace.attention)}.",
            "Choose one of these.",
        )
    rows, columns = (view.of(side) for side in trace.sides(kind))
    return _names(rows), _names(columns), merged(trace.attention[kind], rows, columns)


def _names(words: Sequence[Word]) -> list[str]:
    return [short(printable(word.text)) for word in words]


def short(text: str) -> str:
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"


# One head, and all of them


def head_figure(trace: Trace, kind: Kind, layer: int, head: int, view: View = TOKENS) -> "Figure":
    """Draw one head; layers and heads count from 0."""
    rows, columns, weights = shown(trace, kind, view)
    layers, heads = weights.shape[:2]
    if not (0 <= layer < layers and 0 <= head < heads):
        raise InputError(
            f"There is no head {head} in layer {layer} of the {kind}.",
            f"It has layers 0 to {layers - 1}, with heads 0 to {heads - 1} each.",
            "Choose one of these.",
        )
    size = _size(len(rows), len(columns), 0.3)
    figure = new_figure(size[0] + 1.8, size[1] + 1.4)
    axes = figure.subplots()
    shades = draw_grid(axes, weights[layer, head], rows, columns)
    axes.set_title(f"{TITLES[kind]}, layer {layer + 1}, head {head + 1}", fontsize=10)
    figure.colorbar(shades, ax=axes, label="attention", shrink=0.8)
    return figure


def heads_figure(trace: Trace, kind: Kind, view: View = TOKENS) -> "Figure":
    """Draw every head of a kind, a row per layer, with labels at the edge only."""
    rows, columns, weights = shown(trace, kind, view)
    layers, heads = weights.shape[:2]
    width, height = _size(len(rows), len(columns), 0.11, least=1.1)
    # Explicit positions: matplotlib's constrained layout is slow for many axes.
    names, title = 0.25 + 0.045 * max(map(len, [*rows, *columns, ""])), 0.45
    size = names + heads * (width + 0.1) + 0.9, names + layers * (height + 0.2) + title
    figure = new_figure(*size, layout=None)
    left, bottom, top = names / size[0], names / size[1], 1 - title / size[1]
    right = 1 - 0.8 / size[0]
    gaps = {"wspace": 0.1 / width, "hspace": 0.2 / height}
    grid = figure.subplots(
        layers,
        heads,
        squeeze=False,
        gridspec_kw={"left": left, "right": right, "bottom": bottom, "top": top, **gaps},
    )
    for layer in range(layers):
        for head in range(heads):
            axes = grid[layer, head]
            edge = rows if head == 0 else []
            shades = draw_grid(
                axes, weights[layer, head], edge, columns if layer == layers - 1 else []
            )
            axes.tick_params(labelsize=5, length=1.5, pad=1)
            axes.set_title(f"{layer + 1}.{head + 1}", fontsize=7, pad=2)
    figure.suptitle(f"{TITLES[kind]}: layer.head", fontsize=10)
    bar = figure.add_axes((right + 0.15 / size[0], bottom, 0.12 / size[0], (top - bottom) / 2))
    figure.colorbar(shades, cax=bar).ax.tick_params(labelsize=6)
    return figure


def word_links(trace: Trace) -> "Figure":
    """Draw the word links of the mean of all heads of cross-attention."""
    rows, columns, weights = shown(trace, "cross", PLAIN_WORDS)
    mean = weights.mean((0, 1))
    return links_figure(mean, links(by_share(mean)), columns, rows, "all heads averaged, by share")


def measures_figure(trace: Trace) -> "Figure":
    """Draw the mean entropy and distance of every head."""
    kinds = list(trace.attention)
    layers, heads = (max(w.shape[i] for w in trace.attention.values()) for i in (0, 1))
    figure = new_figure(2 * (1.4 + 0.55 * heads), len(kinds) * (0.9 + 0.42 * layers) + 0.6)
    grid = figure.subplots(len(kinds), 2, squeeze=False)
    for kind, (left, right) in zip(kinds, grid, strict=True):
        weights = trace.attention[kind]
        _numbers(left, entropy(weights).mean(-1), f"{kind}: entropy (bits)")
        _numbers(right, distance(weights).mean(-1), f"{kind}: distance (tokens)")
    return figure


# Saliency


def saliency_figure(trace: Trace, view: View = PLAIN_WORDS) -> "Figure":
    """Draw rollout beside gradient × input, of each output token by each input token."""
    if trace.target is None:
        return decision_figure(trace)
    by = [(name, "source" if name == "source" else "target") for name in trace.saliency]
    sides = {"source": trace.source, "target": trace.decoder_input}
    rolled, rows = rollout(trace.attention), view.of(trace.target)
    widths = {name: view.of(side) for name, side in sides.items() if side is not None}
    size = [_size(len(rows), len(widths[name]), 0.25, least=1.6) for name, _ in by]
    width = sum(w for w, _ in size)
    figure = new_figure(2 * width + 1.8, max(h for _, h in size) + 1.9)
    grid = figure.subplots(
        1, 2 * len(by), squeeze=False, width_ratios=[w for w, _ in size] * 2, sharey=True
    )[0]
    names = [name for name, _ in by]
    parts = [
        ("attention rollout", rolled, "Greys", 0.0),
        ("gradient × input", trace.saliency, "RdBu", -1.0),
    ]
    places = iter(grid)
    for title, values, colours, lowest in parts:
        panels = by_row(*(merged(values[name], rows, widths[name]) for name in names))
        for name, cells in zip(names, panels, strict=True):
            axes = next(places)
            draw_grid(axes, cells, _names(rows), _names(widths[name]), colours, lowest)
            tokens = "source" if name == "source" else "earlier output"
            axes.set_title(f"{title}\nof the {tokens}", fontsize=9)
    scale = (
        "each row divided by its largest magnitude; gradient × input: blue for the word of the "
        "row, red against it"
    )
    figure.suptitle(scale, fontsize=8)
    figure.supxlabel(CAUTION, fontsize=7)
    return figure


def by_row(*panels: Float[Tensor, "m _"]) -> list[Float[Tensor, "m _"]]:
    """Divide each row by its largest magnitude in all panels."""
    rows = torch.cat(panels, dim=-1).abs()
    if not rows.numel():
        return list(panels)
    largest = rows.amax(-1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
    return [cells / largest for cells in panels]


def decision_figure(trace: Trace) -> "Figure":
    """Draw the influence of each word on the most likely label, by three methods."""
    if trace.source is None or not trace.probabilities:
        raise InputError(
            f"A {trace.kind} has no labels.",
            "Only the trace of a classifier has an influence of words on labels.",
            "Use saliency_figure.",
        )
    label, columns = decision(trace)
    left_out = columns["left out"]
    chosen = left_out.abs().argsort(descending=True)[:MAX_WORDS].sort().values
    names = _names([trace.source.words[i] for i in chosen.tolist()])
    figure = new_figure(8.5, 1.9 + 0.24 * len(names))
    grid = figure.subplots(1, 3, sharey=True)
    titles = ["attention rollout\n(share)", "gradient × input\n(log-odds)", "left out\n(log-odds)"]
    for axes, title, (name, values) in zip(grid, titles, columns.items(), strict=True):
        heights = values[chosen].tolist()
        colours = [UNSIGNED if name == "rollout" else FOR if h >= 0 else AGAINST for h in heights]
        axes.barh(range(len(names)), heights, color=colours)
        axes.axvline(0, color="#777777", lw=0.8)
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=8)
    grid[0].set_yticks(range(len(names)), names, parse_math=False)
    grid[0].invert_yaxis()
    correlation = rank_correlation(columns["gradient"], left_out)
    probability = trace.probabilities[label]
    title = f"{printable(label)} ({probability:.1%}): blue for it, red against"
    note = f"gradient and leaving out: rank correlation {correlation:.2f}"
    figure.suptitle(f"{title}\n{note}", fontsize=9, parse_math=False)
    figure.supxlabel(CAUTION, fontsize=7)
    return figure


def decision(trace: Trace) -> tuple[str, dict[str, Float[Tensor, "words"]]]:
    """Return the most likely label, and the influence of each word on it by three methods."""
    assert trace.source is not None
    label = max(trace.probabilities, key=trace.probabilities.__getitem__)
    row = list(trace.probabilities).index(label)
    flow = rollout(trace.attention)["encoder"]
    pooled = flow[0] if trace.pooling == "first" else flow.mean(0)
    gradient = trace.saliency["source"][row]
    words = trace.source.words
    return label, {
        "rollout": torch.stack([pooled[w.start : w.end].sum() for w in words]),
        "gradient": torch.stack([gradient[w.start : w.end].sum() for w in words]),
        "left out": trace.saliency["left_out"][row],
    }


# All figures


def figures(trace: Trace) -> Iterator[tuple[str, "Callable[[], Figure]"]]:
    """Yield the name of each figure of a trace and a function that draws it."""
    for kind in trace.attention:
        yield kind, partial(heads_figure, trace, kind)
    if "cross" in trace.attention:
        yield "cross-words", partial(heads_figure, trace, "cross", PLAIN_WORDS)
        if all(side.words for side in trace.sides("cross")):
            yield "links", partial(word_links, trace)
    yield "heads", partial(measures_figure, trace)
    if trace.saliency:
        yield "saliency", partial(saliency_figure, trace)


def save_all(trace: Trace, folder: Path, suffix: str) -> list[Path]:
    """Save every figure of a trace in its own file."""
    paths = []
    for name, make in figures(trace):
        paths.append(folder / f"{name}.{suffix}")
        save(make(), paths[-1])
    return paths


def _size(rows: int, columns: int, cell: float, least: float = 1.5) -> tuple[float, float]:
    return max(least, cell * columns), max(least, cell * rows)


def _numbers(axes: Any, values: Float[Tensor, "L H"], title: str) -> None:
    axes.imshow(values.numpy(), cmap="Blues", vmin=0, aspect="auto")
    middle = float(values.max()) / 2
    for layer, row in enumerate(values.tolist()):
        for head, value in enumerate(row):
            colour = "white" if value > middle else "black"
            axes.text(head, layer, f"{value:.1f}", ha="center", va="center", size=7, color=colour)
    axes.set_xticks(range(values.size(1)), range(1, values.size(1) + 1))
    axes.set_yticks(range(values.size(0)), range(1, values.size(0) + 1))
    axes.set(xlabel="head", ylabel="layer")
    axes.set_title(title, fontsize=9)
