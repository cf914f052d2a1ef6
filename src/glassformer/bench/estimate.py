"""The mean over a few seeds and its 95% interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from glassformer.measure import t_quantile


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
        half = t_quantile(n - 1) * stdev(values) / sqrt(n) if n > 1 else None
        return cls(mean(values), half, list(values))

    def text(self, form: str) -> str:
        half = "" if self.half_width is None else f" ± {self.half_width:{form.lstrip('+')}}"
        return f"{self.mean:{form}}{half}"
