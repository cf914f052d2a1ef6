"""Figures of a trace, by matplotlib: SVG or PNG, as the name of the file says.

Each function makes a figure, and `save` writes it. Attention is drawn from 0 to 1 everywhere, so
that pictures can be compared; saliency, which has no such scale, by row.
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
    "Attention is not explanation: it shows where the model looks, not what its answer hangs on.\n"
    "Gradient × input is a first-order estimate of that, near this text. Where they disagree, test."
)
TITLES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
FOR, AGAINST, UNSIGNED = "#2f6db5", "#d1495b", "#8a8a8a"
WORDS = 24  # of a classifier's text that are drawn, those that decided most
LETTERS = 20  # of a name at a row or column


@dataclass(frozen=True)
class View:
    """How tokens are shown: merged to words or not, with the marks <s> and </s> or without."""

    words: bool = False
    marks: bool = True

    def of(self, side: Side) -> tuple[Word, ...]:
        return side.groups(self.marks) if self.words else side.each(self.marks)


TOKENS = View()
PLAIN_WORDS = View(words=True, marks=False)


def shown(trace: Trace, kind: Kind, view: View) -> tuple[list[str], list[str], Tensor]:
    """The names of rows and columns, and attention between them: (layers, heads, rows, columns)."""
    if kind not in trace.attention:
        raise InputError(
            f"The trace has no {kind} attention.",
            f"A {trace.kind} has {', '.join(trace.attention)}.",
            "Ask for one of these.",
        )
    rows, columns = (view.of(side) for side in trace.sides(kind))
    return _names(rows), _names(columns), merged(trace.attention[kind], rows, columns)


def _names(words: Sequence[Word]) -> list[str]:
    return [short(printable(word.text)) for word in words]


def short(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"


# One head, and all of them


def head_figure(trace: Trace, kind: Kind, layer: int, head: int, view: View = TOKENS) -> "Figure":
    """One head; layers and heads count from 0."""
    rows, columns, weights = shown(trace, kind, view)
    layers, heads = weights.shape[:2]
    if not (0 <= layer < layers and 0 <= head < heads):
        raise InputError(
            f"There is no head {head} in layer {layer} of the {kind}.",
            f"It has layers 0 to {layers - 1}, with heads 0 to {heads - 1} each.",
            "Ask for one of these.",
        )
    size = _size(len(rows), len(columns), 0.3)
    figure = new_figure(size[0] + 1.8, size[1] + 1.4)
    axes = figure.subplots()
    shades = draw_grid(axes, weights[layer, head], rows, columns)
    axes.set_title(f"{TITLES[kind]}, layer {layer + 1}, head {head + 1}", fontsize=10)
    figure.colorbar(shades, ax=axes, label="attention", shrink=0.8)
    return figure


def heads_figure(trace: Trace, kind: Kind, view: View = TOKENS) -> "Figure":
    """Every head of a kind: a row of pictures per layer, names at the edge only."""
    rows, columns, weights = shown(trace, kind, view)
    layers, heads = weights.shape[:2]
    width, height = _size(len(rows), len(columns), 0.11, least=1.1)
    # Placed by hand: matplotlib's layout takes long over many pictures.
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
    """Which words translate which, by all heads of cross-attention together."""
    rows, columns, weights = shown(trace, "cross", PLAIN_WORDS)
    seen = weights.mean((0, 1))
    return links_figure(seen, links(by_share(seen)), columns, rows, "all heads averaged, by share")


def measures_figure(trace: Trace) -> "Figure":
    """Entropy and distance of every head of every kind, the mean over rows."""
    kinds = list(trace.attention)
    layers, heads = (max(w.shape[i] for w in trace.attention.values()) for i in (0, 1))
    figure = new_figure(2 * (1.4 + 0.55 * heads), len(kinds) * (0.9 + 0.42 * layers) + 0.6)
    grid = figure.subplots(len(kinds), 2, squeeze=False)
    for kind, (left, right) in zip(kinds, grid, strict=True):
        weights = trace.attention[kind]
        _numbers(left, entropy(weights).mean(-1), f"{kind}: entropy (bits)")
        _numbers(right, distance(weights).mean(-1), f"{kind}: distance (tokens)")
    return figure


# What the answer hangs on


def saliency_figure(trace: Trace, view: View = PLAIN_WORDS) -> "Figure":
    """Rollout beside gradient × input, of what was said by what was read."""
    if trace.target is None:
        return decision_figure(trace)
    by = [(name, "source" if name == "source" else "target") for name in trace.saliency]
    sides = {"source": trace.source, "target": trace.read}
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
            what = "the source" if name == "source" else "what was said"
            axes.set_title(f"{title}\nby {what}", fontsize=9)
    told = (
        "each row over its largest magnitude on both sides; of gradient × input, blue speaks for "
        "the word of the row, red against"
    )
    figure.suptitle(told, fontsize=8)
    figure.supxlabel(CAUTION, fontsize=7)
    return figure


def by_row(*panels: Float[Tensor, "m _"]) -> list[Float[Tensor, "m _"]]:
    """Each row over its largest magnitude in any of the panels, so that they can be compared."""
    rows = torch.cat(panels, dim=-1).abs()
    if not rows.numel():
        return list(panels)
    most = rows.amax(-1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
    return [cells / most for cells in panels]


def decision_figure(trace: Trace) -> "Figure":
    """Which words decided: what speaks for the likeliest label, by three ways to tell."""
    if trace.source is None or not trace.probabilities:
        raise InputError(
            f"A {trace.kind} decides on no label.",
            "Only a classifier's trace tells which words decided.",
            "Use saliency_figure.",
        )
    label, columns = decision(trace)
    left_out = columns["left out"]
    most = left_out.abs().argsort(descending=True)[:WORDS].sort().values
    names = _names([trace.source.words[i] for i in most.tolist()])
    figure = new_figure(8.5, 1.9 + 0.24 * len(names))
    grid = figure.subplots(1, 3, sharey=True)
    titles = ["attention rollout\n(share)", "gradient × input\n(log-odds)", "left out\n(log-odds)"]
    for axes, title, (name, values) in zip(grid, titles, columns.items(), strict=True):
        heights = values[most].tolist()
        colours = [UNSIGNED if name == "rollout" else FOR if h >= 0 else AGAINST for h in heights]
        axes.barh(range(len(names)), heights, color=colours)
        axes.axvline(0, color="#777777", lw=0.8)
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=8)
    grid[0].set_yticks(range(len(names)), names, parse_math=False)
    grid[0].invert_yaxis()
    agreement = rank_correlation(columns["gradient"], left_out)
    probability = trace.probabilities[label]
    title = f"{printable(label)} ({probability:.1%}): blue speaks for it, red against"
    told = f"gradient and leaving out: rank correlation {agreement:.2f}"
    figure.suptitle(f"{title}\n{told}", fontsize=9, parse_math=False)
    figure.supxlabel(CAUTION, fontsize=7)
    return figure


def decision(trace: Trace) -> tuple[str, dict[str, Float[Tensor, "words"]]]:
    """The likeliest label, and how much each word has to do with it, by three ways to tell."""
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


# All of them


def figures(trace: Trace) -> Iterator[tuple[str, "Callable[[], Figure]"]]:
    """The name of each picture of a trace, and what makes it."""
    for kind in trace.attention:
        yield kind, partial(heads_figure, trace, kind)
    if "cross" in trace.attention:
        yield "cross-words", partial(heads_figure, trace, "cross", PLAIN_WORDS)
        if all(side.words for side in trace.sides("cross")):
            yield "links", partial(word_links, trace)
    yield "heads", partial(measures_figure, trace)
    yield "saliency", partial(saliency_figure, trace)


def save_all(trace: Trace, folder: Path, suffix: str) -> list[Path]:
    """Every picture of a trace, in files of its own."""
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
