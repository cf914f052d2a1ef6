"""Line and bar charts of means with 95% intervals."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from glassformer.lab.experiment import Results, Summary, Value

COLOURS = ("#1f5f8b", "#d1495b", "#2e8b57", "#8d6a9f", "#d98c1f", "#5b5b5b")


def line(
    axes: Any,
    results: Results,
    quantity: str,
    along: str,
    label: str | None = None,
    colour: str = COLOURS[0],
    style: str = "o-",
    **arm: Value,
) -> None:
    """Draw the mean of a quantity with its 95% interval against one varied setting.

    A cross at the upper edge marks a setting where most runs failed. Where all failed, the line
    has a gap.
    """
    tried = [v for v in results.choices(along) if results.values(quantity, **{**arm, along: v})]
    xs = sorted(tried, key=lambda v: v if isinstance(v, int | float) else 0)  # names keep order
    summaries = [results.summary(quantity, **{**arm, along: x}) for x in xs]
    means = [summary.mean for summary in summaries]
    axes.errorbar(
        *(xs, means, _error_bars(summaries)),
        **{"fmt": style, "color": colour, "label": label, "capsize": 2, "ms": 4, "lw": 1.3},
    )
    failed = [x for x, s in zip(xs, summaries, strict=True) if s.failed > s.count / 2]
    edge = axes.get_xaxis_transform()  # x in data units, y from 0 at the bottom to 1 at the top
    axes.plot(failed, [0.97] * len(failed), "x", color=colour, transform=edge)


def bars(axes: Any, results: Results, quantity: str, along: str, **arm: Value) -> None:
    """Draw the same as bars, for a varied setting that has names and no order."""
    names = [str(value) for value in results.choices(along)]
    summaries = [results.summary(quantity, **{**arm, along: name}) for name in names]
    means = [summary.mean for summary in summaries]
    axes.bar(names, means, yerr=_error_bars(summaries), capsize=3, color=COLOURS[0])
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)


def _error_bars(summaries: Sequence[Summary]) -> list[list[float]]:
    """Return the lengths below and above the means; 0 where there is no interval."""
    known = [(s, isfinite(s.low)) for s in summaries]
    return [
        [s.mean - s.low if finite else 0.0 for s, finite in known],
        [s.high - s.mean if finite else 0.0 for s, finite in known],
    ]


def log2_axis(axes: Any, values: Sequence[Value]) -> None:
    """Make the horizontal axis logarithmic, with ticks at the measured values only."""
    axes.set_xscale("log", base=2)
    axes.set_xticks([float(value) for value in values], [str(value) for value in values])
    axes.set_xticks([], minor=True)
