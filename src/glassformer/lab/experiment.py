"""The shape of an experiment: a claim, what is measured, and a rule that judges the numbers.

    measure   every arm with several seeds          →  Measurements
    judge     the rule, which was stated before     →  Verdict
    draw      one picture of the numbers

An experiment is a module with EXPERIMENT = Experiment(...). What a run could not reach is a
measurement too: it is infinite or not a number, it is counted, and it is never dropped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from statistics import mean, median
from typing import Any, Literal

from glassformer.measure import half_width

Value = str | int | float
Arm = Mapping[str, Value]  # what was varied, and how: {"scaled": "yes", "d_k": 64}
Tick = Callable[[float], None]  # told the share of the work that is done, from 0 to 1
Outcome = Literal["supported", "not supported", "depends"]


@dataclass(frozen=True)
class Budget:
    """How much an experiment may do.

    Quick: 30 seconds of one core, to see that it works. Otherwise: 5 minutes of two cores.
    """

    quick: bool
    seeds: tuple[int, ...]
    threads: int = 1  # what runs at the same time: processes of trials.over, or threads of torch


@dataclass(frozen=True)
class Measurement:
    """One number of one run."""

    arm: Arm
    seed: int
    quantity: str  # "steps to learn", "gradient norm"
    value: float  # inf or nan of what never came or is no number


@dataclass(frozen=True)
class Summary:
    """One quantity of one arm over its seeds: mean and 95% interval of the finite values."""

    mean: float  # nan if no value is finite
    low: float  # nan of fewer than two: one value tells nothing of the spread
    high: float
    median: float  # of all values, a failure standing for the infinite
    count: int  # values, failures included
    failed: int  # of them not finite

    @classmethod
    def of(cls, values: Iterable[float]) -> "Summary":
        values = list(values)
        finite = [value for value in values if isfinite(value)]
        middle = mean(finite) if finite else nan
        half = half_width(finite)
        reach = nan if half is None else half
        ranked = [_ranked(value) for value in values]
        return cls(
            middle,
            middle - reach,
            middle + reach,
            median(ranked) if ranked else nan,
            len(values),
            len(values) - len(finite),
        )


class Results:
    """The measurements of an experiment, to ask of."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.measurements = list(measurements)

    @property
    def quantities(self) -> list[str]:
        """In the order in which they were first measured."""
        return list(dict.fromkeys(m.quantity for m in self.measurements))

    def arms(self, quantity: str | None = None, **chosen: Value) -> list[dict[str, Value]]:
        """The arms in which `quantity` was measured, those that have the `chosen` values only."""
        found = (
            tuple(m.arm.items())
            for m in self.measurements
            if quantity in (None, m.quantity) and _has(m.arm, chosen)
        )
        return [dict(arm) for arm in dict.fromkeys(found)]

    def choices(self, name: str) -> list[Value]:
        """What was tried of one thing that was varied: results.choices("d_k")."""
        return list(dict.fromkeys(m.arm[name] for m in self.measurements if name in m.arm))

    def values(self, quantity: str, **arm: Value) -> list[float]:
        """Of all runs whose arm has these values."""
        return [m.value for m in self.measurements if m.quantity == quantity and _has(m.arm, arm)]

    def by_seed(self, quantity: str, **arm: Value) -> dict[int, float]:
        """Of the one arm that has these values; the mean of several."""
        found: dict[int, list[float]] = {}
        for m in self.measurements:
            if m.quantity == quantity and _has(m.arm, arm):
                found.setdefault(m.seed, []).append(m.value)
        return {seed: mean(values) for seed, values in found.items()}

    def summary(self, quantity: str, **arm: Value) -> Summary:
        """Over the seeds."""
        return Summary.of(self.by_seed(quantity, **arm).values())

    def difference(self, quantity: str, one: Arm, other: Arm) -> Summary:
        """`one` minus `other`, seed by seed: what both share in a seed does not blur it."""
        left, right = self.by_seed(quantity, **one), self.by_seed(quantity, **other)
        return Summary.of(left[seed] - right[seed] for seed in left if seed in right)

    def compare(self, quantity: str, one: Arm, other: Arm) -> Literal["more", "less", "alike"]:
        """Whether `one` has more of a quantity than `other`, by more than chance.

        By the 95% interval of the difference, seed by seed. What never came is more than any
        number, and has no interval: then in more than half of the seeds one side alone must have
        failed, and in none the other way round.
        """
        left, right = self.by_seed(quantity, **one), self.by_seed(quantity, **other)
        pairs = [(_ranked(left[seed]), _ranked(right[seed])) for seed in left if seed in right]
        if all(isfinite(a) and isfinite(b) for a, b in pairs):
            difference = Summary.of(a - b for a, b in pairs)
            return "more" if difference.low > 0 else "less" if difference.high < 0 else "alike"
        above = sum(a == inf and b < inf for a, b in pairs)
        below = sum(b == inf and a < inf for a, b in pairs)
        if above > len(pairs) / 2 and all(a >= b for a, b in pairs):
            return "more"
        return "less" if below > len(pairs) / 2 and all(a <= b for a, b in pairs) else "alike"


def _ranked(value: float) -> float:
    """What is no number counts as what never came."""
    return inf if value != value else value


def _has(arm: Arm, chosen: Mapping[str, Value]) -> bool:
    return all(name in arm and arm[name] == value for name, value in chosen.items())


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    because: str  # with the numbers in it


@dataclass(frozen=True)
class Experiment:
    """All that is said before anything is measured, and how to measure it."""

    name: str  # as on the command line and of its module: "residual-norm" is residual_norm.py
    title: str
    claim: str  # in a sentence or two, as it is made
    source: str  # who makes it, and where
    varied: str
    measured: str
    rule: str  # how the verdict follows from the numbers
    measure: Callable[[Budget, Tick], Sequence[Measurement]]
    judge: Callable[[Results], Verdict]
    draw: Callable[[Results, Any], None]  # on a matplotlib Figure, which it divides as it likes
    shown: tuple[str, ...] = ()  # quantities of the table; none named: all
    seeds: int = 3  # of a full run, unless the user names a number
