"""Intervals of a few values: Student's t from its density, and what they promise."""

from math import gamma, pi, sqrt

import numpy as np
import pytest

from glassformer.bench.estimate import MOST_SEEDS, Estimate, T


@pytest.mark.parametrize("freedom", range(1, len(T) + 1))
def test_between_the_quantiles_lie_95_percent(freedom: int) -> None:
    x = np.linspace(-T[freedom - 1], T[freedom - 1], 200_001)
    scale = gamma((freedom + 1) / 2) / (sqrt(freedom * pi) * gamma(freedom / 2))
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    assert np.trapezoid(density, x) == pytest.approx(0.95, abs=5e-5)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0).normal(3.0, 2.0, (4_000, 3))
    found = [Estimate.of(some) for some in draws.tolist()]
    held = [abs(e.mean - 3.0) <= e.half_width for e in found if e and e.half_width is not None]
    assert len(held) == 4_000 and np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    one = Estimate.of([2.5])
    assert one == Estimate(2.5, None, [2.5]) and one.text(".2f") == "2.50"
    assert Estimate.of([]) is None


def test_equal_values_are_sure_and_signs_are_shown_once() -> None:
    same = Estimate.of([1.0] * MOST_SEEDS)
    assert same is not None and same.half_width == 0 and same.text("+.1f") == "+1.0 ± 0.0"
