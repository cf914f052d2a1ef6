"""Schedules: the paper's Equation 3, and others that climb, peak and end where they should."""

from itertools import pairwise
from math import cos, pi

import pytest

from glassformer.train.schedule import SCHEDULES, factor, paper_peak

WARMUP, TOTAL = 40, 400
FALLING = ["cosine", "linear", "trapezoid"]
EVERY = pytest.mark.parametrize("name", SCHEDULES)


def rates(name: str, warmup: int = WARMUP, total: int = TOTAL) -> list[float]:
    return [factor(name, step, warmup, total) for step in range(1, total + 1)]


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4_000), (1_024, 4_000), (128, 7), (64, 1)])
def test_inverse_sqrt_from_the_papers_peak_is_equation_3(d_model, warmup):
    for step in [1, 2, warmup, warmup + 1, 3 * warmup, 100_000]:
        equation_3 = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        rate = paper_peak(d_model, warmup) * factor("inverse-sqrt", step, warmup, 100_000)
        assert rate == pytest.approx(equation_3, rel=1e-12)


@EVERY
def test_the_climb_is_linear_and_ends_at_the_peak(name):
    climb = rates(name)[:WARMUP]
    assert climb == pytest.approx([step / WARMUP for step in range(1, WARMUP + 1)])
    assert climb[-1] == 1.0


@EVERY
def test_nothing_is_above_the_peak_and_nothing_below_zero(name):
    assert max(rates(name)) == 1.0
    assert min(rates(name)) >= 0.0


@EVERY
def test_after_the_peak_it_never_rises(name):
    fall = rates(name)[WARMUP - 1 :]
    assert all(later <= earlier for earlier, later in pairwise(fall))


def test_cosine_and_linear_fall_as_their_names_say():
    for step in range(WARMUP, TOTAL + 1):
        done = (step - WARMUP) / (TOTAL - WARMUP)
        assert factor("linear", step, WARMUP, TOTAL) == pytest.approx(1 - done)
        assert factor("cosine", step, WARMUP, TOTAL) == pytest.approx(0.5 + cos(pi * done) / 2)


@pytest.mark.parametrize("name", FALLING)
def test_a_falling_schedule_ends_at_zero_and_stays_there(name):
    ends = [factor(name, step, WARMUP, TOTAL) for step in (TOTAL, TOTAL + 1, 2 * TOTAL)]
    assert ends == pytest.approx([0.0] * 3)


def test_the_others_do_not_depend_on_the_end():
    for name in set(SCHEDULES) - set(FALLING):
        assert rates(name)[:100] == rates(name, total=10 * TOTAL)[:100]
    assert rates("constant")[WARMUP:] == [1.0] * (TOTAL - WARMUP)


@EVERY
def test_without_warm_up_the_first_update_has_the_peak_rate(name):
    without = rates(name, warmup=0)
    assert without[0] == max(without) == 1.0


@EVERY
@pytest.mark.parametrize("total", [1, WARMUP - 1, WARMUP])
def test_a_run_may_end_within_its_warm_up(name, total):
    expected = [step / WARMUP for step in range(1, total + 1)]
    assert rates(name, total=total) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_trapezoid_stays_at_the_peak_and_falls_in_its_last_share(share):
    decay = round(share * TOTAL)
    for step in range(WARMUP + 1, TOTAL + 1):
        expected = min(1.0, (TOTAL - step) / decay)
        assert factor("trapezoid", step, WARMUP, TOTAL, share) == pytest.approx(expected)


def test_before_its_decay_a_trapezoid_does_not_depend_on_the_end():
    rates = [[factor("trapezoid", step, WARMUP, t) for step in range(1, 321)] for t in (400, 900)]
    assert rates[0] == rates[1]
