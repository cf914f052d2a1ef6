"""Lines with intervals: what most pictures of the lab consist of."""

from math import isfinite
from typing import Any

from glassformer.lab.experiment import Results, Value

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
    """The mean of a quantity along one thing that was varied, with its 95% interval.

    A cross at the upper edge: most runs failed there. Where all did, the line has a gap.
    """
    there = [v for v in results.choices(along) if results.values(quantity, **{**arm, along: v})]
    places = sorted(there, key=lambda v: v if isinstance(v, int | float) else 0)  # names stay put
    summaries = [results.summary(quantity, **{**arm, along: place}) for place in places]
    means = [summary.mean for summary in summaries]
    reach = [s.high - s.mean if isfinite(s.high) else 0.0 for s in summaries]
    axes.errorbar(
        places, means, reach, fmt=style, color=colour, label=label, capsize=2, ms=4, lw=1.3
    )
    failed = [p for p, s in zip(places, summaries, strict=True) if s.failed > s.count / 2]
    edge = axes.get_xaxis_transform()  # x as in the data, y from 0 at the bottom to 1 at the top
    axes.plot(failed, [0.97] * len(failed), "x", color=colour, transform=edge)


def bars(
    axes: Any, results: Results, quantity: str, along: str, label: str | None = None, **arm: Value
) -> None:
    """The same as bars, where what was varied has names and no order."""
    places = [str(value) for value in results.choices(along)]
    summaries = [results.summary(quantity, **{**arm, along: place}) for place in places]
    reach = [s.high - s.mean if isfinite(s.high) else 0.0 for s in summaries]
    axes.bar(
        places, [s.mean for s in summaries], yerr=reach, capsize=3, color=COLOURS[0], label=label
    )
    axes.set_xticks(range(len(places)), places, rotation=30, ha="right", fontsize=8)
