"""Attention and head statistics as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence

from glassformer.inspect.statistics import HeadFigures
from glassformer.inspect.trace import Trace

CELLS = ("kind", "layer", "head", "row", "column", "row_token", "column_token", "attention")
HEADS = ("kind", "layer", "head", "entropy", "distance")
FIGURES = (
    "role",
    "nearest",
    "divergence",
    "mean_divergence",
    "mutual_information",
    "importance",
    "importance_p",
)
PLACES = ("previous", "same", "next", "first", "last")


def attention_csv(trace: Trace) -> str:
    """Return a line per cell of every head; layers, heads, rows and columns count from 1."""
    return _csv(CELLS, _cells(trace))


def _cells(trace: Trace) -> Iterable[Sequence[object]]:
    for kind, weights in trace.attention.items():
        rows, columns = trace.sides(kind)
        for layer, heads in enumerate(weights.tolist(), 1):
            for head, cells in enumerate(heads, 1):
                for t, (token, values) in enumerate(zip(rows.tokens, cells, strict=True), 1):
                    for s, (other, value) in enumerate(zip(columns.tokens, values, strict=True), 1):
                        yield kind, layer, head, t, s, token, other, f"{value:.6f}"


def heads_csv(heads: Sequence[HeadFigures]) -> str:
    """Return a line per head; statistics that a kind lacks are empty."""
    rows = (
        [
            *(getattr(one, name) for name in HEADS),
            *(one.places.get(place) for place in PLACES),
            *(getattr(one, name) for name in FIGURES),
        ]
        for one in heads
    )
    formatted = ([f"{x:.6g}" if isinstance(x, float) else x for x in row] for row in rows)
    return _csv([*HEADS, *PLACES, *FIGURES], formatted)


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return written.getvalue()
