"""Summaries over seeds, comparisons of arms, and failed runs."""

from math import inf, isnan, nan

import numpy as np
import pytest

from glassformer.lab.experiment import Measurement, Results, Summary, bounds
from lab.fakes import runs


def test_95_percent_of_the_intervals_contain_the_true_mean() -> None:
    random = np.random.default_rng(0)
    draws = random.normal(3.0, 2.0, (1_500, 4))
    summaries = [Summary.of(row.tolist()) for row in draws]
    held = np.mean([s.low <= 3.0 <= s.high for s in summaries])
    assert held == pytest.approx(0.95, abs=0.015)


def test_failures_are_counted_and_excluded_from_the_mean_only() -> None:
    summary = Summary.of([1.0, 3.0, inf, nan, inf])
    assert (summary.mean, summary.count, summary.failed) == (2.0, 5, 3)
    assert summary.median == inf
    nothing = Summary.of([inf, nan])
    assert isnan(nothing.mean) and isnan(nothing.low) and nothing.failed == 2


def test_one_value_has_no_interval() -> None:
    one = Summary.of([4.0])
    assert one.mean == 4.0 and isnan(one.low) and isnan(one.high)


RESULTS = Results(
    runs("loss", {"kind": "a", "size": 1}, [1.0, 2.0, 3.0])
    + runs("loss", {"kind": "a", "size": 2}, [2.0, 3.1, 3.9])
    + runs("loss", {"kind": "b", "size": 1}, [9.0, 0.0, 3.0])
    + runs("steps", {"kind": "b", "size": 1}, [10.0, 20.0, inf])
)


def test_results_are_selected_by_arm() -> None:
    assert RESULTS.quantities == ["loss", "steps"]
    assert RESULTS.choices("kind") == ["a", "b"] and RESULTS.choices("size") == [1, 2]
    assert RESULTS.arms("steps") == [{"kind": "b", "size": 1}]
    assert RESULTS.arms(kind="a") == [{"kind": "a", "size": 1}, {"kind": "a", "size": 2}]
    assert RESULTS.by_seed("loss", kind="a", size=2) == {0: 2.0, 1: 3.1, 2: 3.9}
    assert RESULTS.by_seed("loss", kind="a") == {0: 1.5, 1: 2.55, 2: 3.45}
    assert RESULTS.values("steps") == [10.0, 20.0, inf]
    assert RESULTS.summary("loss", kind="c").count == 0


def test_differences_are_paired_by_seed() -> None:
    """Noise that a seed adds to both arms does not widen the interval."""
    one, other = {"kind": "a", "size": 2}, {"kind": "a", "size": 1}
    difference = RESULTS.difference("loss", one, other)
    assert difference.mean == pytest.approx(1.0) and difference.low > 0.7
    assert RESULTS.summary("loss", **one).low < RESULTS.summary("loss", **other).high
    assert RESULTS.compare("loss", one, other) == "more"
    assert RESULTS.compare("loss", other, one) == "less"
    assert RESULTS.compare("loss", {"kind": "b"}, other) == "alike"


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([inf, inf, inf], [5.0, 6.0, 7.0], "more"),
        ([inf, nan, 8.0], [5.0, 6.0, 7.0], "more"),
        ([inf, 9.0, 8.0], [5.0, 6.0, 7.0], "alike"),  # one failure of three may be chance
        ([inf, inf, 6.0], [5.0, 6.0, 7.0], "alike"),  # the third seed points the other way
        ([inf, inf, inf], [inf, inf, inf], "alike"),
        ([5.0, 6.0, 7.0], [inf, inf, 7.0], "less"),
        ([5.0], [7.0], "alike"),  # one seed is not enough
        ([], [], "alike"),
    ],
)
def test_a_failure_compares_as_infinite(one: list[float], other: list[float], found: str) -> None:
    results = Results(runs("steps", {"arm": 1}, one) + runs("steps", {"arm": 2}, other))
    assert results.compare("steps", {"arm": 1}, {"arm": 2}) == found


def test_seeds_of_one_arm_only_are_not_compared() -> None:
    results = Results([*runs("x", {"a": 1}, [1.0, 2.0]), Measurement({"a": 2}, 7, "x", 5.0)])
    assert results.difference("x", {"a": 1}, {"a": 2}).count == 0


def test_an_interval_across_the_bound_is_neither_above_nor_below() -> None:
    summary = Summary.of([9.0, 10.0, 11.0])
    assert summary.above(5) and not summary.below(5)
    assert summary.below(15) and not summary.above(15)
    assert not summary.above(9) and not summary.below(9)


def test_failed_and_single_runs_are_neither_above_nor_below() -> None:
    for summary in (Summary.of([9.0, 9.1, 9.2, inf]), Summary.of([9.0]), Summary.of([])):
        assert not summary.above(0) and not summary.below(100)


@pytest.mark.parametrize(
    ("quantity", "low", "high"),
    [
        ("accuracy, %", 0, 100),
        ("BLEU", 0, 100),
        ("steps to 95%", 0, inf),
        ("gradient norm", 0, inf),
        ("exponent of n", -inf, inf),
    ],
)
def test_intervals_stay_within_the_range_of_the_quantity(
    quantity: str, low: float, high: float
) -> None:
    assert bounds(quantity) == (low, high)
    values = [1.0, 99.0, 99.0]  # with an interval from below 0 to above 100
    free, found = Summary.of(values), Results(runs(quantity, {"a": 1}, values)).summary(quantity)
    assert free.low < 0 and free.high > 100
    assert (found.low, found.high) == (max(free.low, low), min(free.high, high))
    assert found.mean == free.mean
