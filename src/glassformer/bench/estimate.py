"""The mean over a few seeds and its 95% interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

# 97.5% quantiles of Student's t with 1, 2, … degrees of freedom; a test integrates its density.
T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
MOST_SEEDS = len(T) + 1


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with half the width of its 95% interval, where there are two or more."""

    mean: float
    half_width: float | None
    values: list[float]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate | None":
        if not values:
            return None
        n = len(values)
        half = T[n - 2] * stdev(values) / sqrt(n) if n > 1 else None
        return cls(mean(values), half, list(values))

    def text(self, form: str) -> str:
        half = "" if self.half_width is None else f" ± {self.half_width:{form.lstrip('+')}}"
        return f"{self.mean:{form}}{half}"
