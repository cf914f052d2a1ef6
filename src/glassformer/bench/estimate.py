"""The mean over a few seeds and its 95% interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from glassformer.measure import half_width


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with half the width of its 95% interval, where there are two or more."""

    mean: float
    half_width: float | None
    values: list[float]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate | None":
        return cls(mean(values), half_width(values), list(values)) if values else None

    def text(self, form: str) -> str:
        half = "" if self.half_width is None else f" ± {self.half_width:{form.lstrip('+')}}"
        return f"{self.mean:{form}}{half}"
