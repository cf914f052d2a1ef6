"""Means over seeds and their 95% intervals."""

import numpy as np
import pytest

from glassformer.bench.estimate import Estimate


def test_95_percent_of_the_intervals_contain_the_true_mean() -> None:
    draws = np.random.default_rng(0).normal(3.0, 2.0, (4_000, 3))
    found = [Estimate.of(some) for some in draws.tolist()]
    held = [abs(e.mean - 3.0) <= e.half_width for e in found if e and e.half_width is not None]
    assert len(held) == 4_000 and np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_one_value_has_no_interval_and_no_value_has_no_mean() -> None:
    one = Estimate.of([2.5])
    assert one == Estimate(2.5, None, [2.5]) and one.text(".2f") == "2.50"
    assert Estimate.of([]) is None


def test_equal_values_have_an_empty_interval_and_one_sign() -> None:
    same = Estimate.of([1.0] * 5)
    assert same is not None and same.half_width == 0 and same.text("+.1f") == "+1.0 ± 0.0"
