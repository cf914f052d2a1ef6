"""The parts of an experiment: a claim, measurements, and a rule that judges them.

    measure   every arm with several seeds          →  Measurements
    judge     the rule, stated before the run       →  Verdict
    draw      one figure of the numbers

An experiment is a module with EXPERIMENT = Experiment(...). A run that fails to reach its goal is
recorded as infinite or NaN, counted, and never dropped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from statistics import mean, median
from typing import Any, Literal

from glassformer.measure import half_width

Value = str | int | float
Arm = Mapping[str, Value]  # the varied settings: {"scaled": "yes", "d_k": 64}
Tick = Callable[[float], None]  # receives the share of the work that is done, from 0 to 1
Outcome = Literal["supported", "not supported", "depends"]

# Words that mark a quantity as non-negative by its name.
NON_NEGATIVE = (
    *("steps", "seconds", "bytes", "tokens/s", "loss", "perplexity"),
    *("norm", "÷", "share", "distance", "entropy", "slope"),
)


@dataclass(frozen=True)
class Budget:
    """The size of a run: 30 seconds on one core if `quick`, else 5 minutes on two cores."""

    quick: bool
    seeds: tuple[int, ...]
    threads: int = 1  # processes of run_trials
    device: str = "cpu"  # of the models that learn, as torch names it


@dataclass(frozen=True)
class Measurement:
    """One number of one run."""

    arm: Arm
    seed: int
    quantity: str  # "steps to 95%", "gradient norm"
    value: float  # inf or nan if the run failed


@dataclass(frozen=True)
class Summary:
    """One quantity of one arm over its seeds: mean and 95% interval of the finite values."""

    mean: float  # nan if no value is finite
    low: float  # nan for fewer than two finite values
    high: float
    median: float  # of all values; a failure counts as infinite
    count: int  # of all values, failures included
    failed: int  # values that are not finite

    @classmethod
    def of(cls, values: Iterable[float], bounds: tuple[float, float] = (-inf, inf)) -> "Summary":
        """Summarise `values`; the interval is cut off at the `bounds` of the quantity."""
        values = list(values)
        finite = [value for value in values if isfinite(value)]
        centre = mean(finite) if finite else nan
        half = half_width(finite)
        reach = nan if half is None else half
        low, high = max(centre - reach, bounds[0]), min(centre + reach, bounds[1])
        ranked = [_ranked(value) for value in values]
        middle = median(ranked) if ranked else nan
        return cls(centre, low, high, middle, len(values), len(values) - len(finite))

    def above(self, bound: float) -> bool:
        """Return whether no run failed and the whole interval is above `bound`."""
        return self.failed == 0 and self.low > bound

    def below(self, bound: float) -> bool:
        """Return whether no run failed and the whole interval is below `bound`."""
        return self.failed == 0 and self.high < bound


def bounds(quantity: str) -> tuple[float, float]:
    """Return the range of a quantity by the unit in its name: "accuracy, %", "steps to 95%"."""
    if quantity.endswith(", %") or quantity == "BLEU":
        return 0.0, 100.0
    return 0.0 if any(word in quantity for word in NON_NEGATIVE) else -inf, inf


class Results:
    """The measurements of an experiment, with queries by arm."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.measurements = list(measurements)

    @property
    def quantities(self) -> list[str]:
        """Names of the quantities, in the order of their first measurement."""
        return list(dict.fromkeys(m.quantity for m in self.measurements))

    def arms(self, quantity: str | None = None, **chosen: Value) -> list[dict[str, Value]]:
        """Return the arms with the `chosen` values in which `quantity` was measured."""
        found = (
            tuple(m.arm.items())
            for m in self.measurements
            if quantity in (None, m.quantity) and _has(m.arm, chosen)
        )
        return [dict(arm) for arm in dict.fromkeys(found)]

    def choices(self, name: str) -> list[Value]:
        """Return the values of one varied setting: results.choices("d_k")."""
        return list(dict.fromkeys(m.arm[name] for m in self.measurements if name in m.arm))

    def values(self, quantity: str, **arm: Value) -> list[float]:
        """Return the values of all runs whose arm has these settings."""
        return [m.value for m in self.measurements if m.quantity == quantity and _has(m.arm, arm)]

    def by_seed(self, quantity: str, **arm: Value) -> dict[int, float]:
        """Return the value of each seed; the mean if several arms have these settings."""
        found: dict[int, list[float]] = {}
        for m in self.measurements:
            if m.quantity == quantity and _has(m.arm, arm):
                found.setdefault(m.seed, []).append(m.value)
        return {seed: mean(values) for seed, values in found.items()}

    def summary(self, quantity: str, **arm: Value) -> Summary:
        """Return the mean and interval over the seeds."""
        return Summary.of(self.by_seed(quantity, **arm).values(), bounds(quantity))

    def difference(self, quantity: str, one: Arm, other: Arm) -> Summary:
        """Summarise `one` minus `other`, paired by seed."""
        left, right = self.by_seed(quantity, **one), self.by_seed(quantity, **other)
        return Summary.of(left[seed] - right[seed] for seed in left if seed in right)

    def compare(self, quantity: str, one: Arm, other: Arm) -> Literal["more", "less", "alike"]:
        """Return whether `one` has significantly more or less of a quantity than `other`.

        The test is the 95% interval of the paired difference. A failure counts as infinite and has
        no interval: if there are any, one side alone must fail in more than half of the seeds, and
        no seed may point the other way.
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
    """Count NaN as infinite."""
    return inf if value != value else value


def _has(arm: Arm, chosen: Mapping[str, Value]) -> bool:
    return all(name in arm and arm[name] == value for name, value in chosen.items())


@dataclass(frozen=True)
class Verdict:
    """The outcome of the rule, one sentence that states it, and the numbers it compares."""

    outcome: Outcome
    because: str
    evidence: Mapping[str, str] = field(default_factory=dict)  # numbers that are in no other table


@dataclass(frozen=True)
class Experiment:
    """A claim, the rule that judges it, and the functions that measure, judge and draw."""

    name: str  # on the command line; the module "residual-norm" is residual_norm.py
    title: str
    claim: str  # one or two sentences
    source: str  # publication
    varied: str
    measured: str
    rule: str  # how the verdict follows from the numbers
    measure: Callable[[Budget, Tick], Sequence[Measurement]]
    judge: Callable[[Results], Verdict]
    draw: Callable[[Results, Any], None]  # on a matplotlib Figure
    shown: tuple[str, ...] = ()  # quantities in the table; empty: all
    seeds: int = 3  # of a full run
