"""Axes of pictures on which what was varied stands in doublings."""

from collections.abc import Sequence
from typing import Any

from glassformer.lab.experiment import Value


def doublings(axes: Any, places: Sequence[Value]) -> None:
    """The horizontal axis, marked where something was measured and nowhere else."""
    axes.set_xscale("log", base=2)
    axes.set_xticks([float(place) for place in places], [str(place) for place in places])
    axes.set_xticks([], minor=True)
