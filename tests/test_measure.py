"""Rounds of timing, allocated bytes, exponents, and the quantiles of Student's t."""

from itertools import count
from math import lgamma, pi, sqrt
from time import sleep, thread_time

import numpy as np
import pytest
import torch
from torch.profiler import record_function

from glassformer.measure import (
    T,
    best_of_rounds,
    best_seconds,
    exponent,
    peak_bytes,
    peaks_within,
    t_quantile,
)


@pytest.mark.parametrize("warm_up", [True, False])
def test_runs_take_turns_and_the_best_round_after_the_warm_up_counts(warm_up: bool) -> None:
    order: list[str] = []
    ticks: list[int] = []
    seconds = {"a": iter([1.0, 5.0, 3.0]), "b": iter([2.0, 2.0, 4.0])}

    def turn(name: str) -> float:
        order.append(name)
        return next(seconds[name])

    runs = {name: lambda name=name: turn(name) for name in seconds}
    best = best_of_rounds(runs, 3 - warm_up, lambda: ticks.append(1), warm_up=warm_up)
    assert order == ["a", "b"] * 3 and len(ticks) == 6
    assert best == ({"a": 3.0, "b": 2.0} if warm_up else {"a": 1.0, "b": 2.0})


def test_runs_are_timed_by_the_given_clock() -> None:
    clock = count()  # advances by one second each time it is read
    assert best_seconds({"run": lambda: next(clock)}, 2, clock=lambda: next(clock)) == {"run": 2}


def test_the_thread_clock_counts_processor_time_only() -> None:
    x = torch.randn(300, 300)
    runs = {"sleep": lambda: sleep(0.01), "compute": lambda: x @ x @ x}
    spent = best_seconds(runs, 3, clock=thread_time)
    assert 0 <= spent["sleep"] < 0.005 and spent["compute"] > 0


@pytest.mark.parametrize("freedom", [*range(1, len(T) + 4), 30, 200])
def test_95_percent_of_students_t_lie_between_the_quantiles(freedom: int) -> None:
    """The oracle is the density, integrated."""
    x = np.linspace(-t_quantile(freedom), t_quantile(freedom), 200_001)
    scale = np.exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * pi)
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    assert np.trapezoid(density, x) == pytest.approx(0.95, abs=5e-5)


def test_peak_bytes_is_the_most_that_was_held_at_once() -> None:
    def run() -> torch.Tensor:
        for _ in range(3):
            both = torch.empty(1000), torch.empty(1000)  # never more than two pairs alive
            del both
        return torch.empty(500)

    assert peak_bytes(run) == pytest.approx(8000, abs=256)  # the allocator rounds up


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_recovered(p: float) -> None:
    sizes = [2, 4, 8, 16]
    assert exponent(sizes, [3 * n**p for n in sizes]) == pytest.approx(p, abs=1e-9)


def test_the_peak_of_a_span_excludes_what_was_held_before_it() -> None:
    kib = 2**10

    def run() -> None:
        kept = torch.empty(100 * kib, dtype=torch.uint8)
        for size in (10, 30, 20):
            with record_function("part"):
                torch.empty(size * kib, dtype=torch.uint8)
        del kept

    found = peaks_within(run, ["part", "nowhere"])
    assert found["nowhere"] == 0
    assert 30 * kib <= found["part"] < 31 * kib
