"""Best-of-rounds timing, peak memory, exponents and Student's t."""

import time
from math import lgamma, pi, sqrt

import numpy as np
import pytest
import torch
from torch.profiler import record_function

from glassformer.measure import best_seconds, exponent, peak_bytes, peaks_within, t_quantile


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


def test_the_peak_is_what_was_held_at_once() -> None:
    def run() -> None:
        one = torch.empty(1_000)
        del one
        two, three = torch.empty(1_000), torch.empty(500)
        del two, three

    assert peak_bytes(run) == pytest.approx(4 * 1_500, rel=0.1)


@pytest.mark.parametrize("power", [0, 1, 2])
def test_an_exponent_is_that_of_the_power(power: int) -> None:
    sizes = [2.0, 4.0, 8.0, 32.0]
    assert exponent(sizes, [3 * n**power for n in sizes]) == pytest.approx(power)


def test_a_span_is_asked_what_it_took_beyond_what_was_there() -> None:
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


def test_runs_alternate_and_the_best_round_after_the_warm_up_counts() -> None:
    order: list[str] = []
    naps = iter([0.0, 0.05, 0.01])

    def slow() -> None:
        order.append("slow")
        time.sleep(next(naps))

    ticks: list[int] = []
    best = best_seconds(
        {"slow": slow, "fast": lambda: order.append("fast")}, 2, lambda: ticks.append(1)
    )
    assert order == ["slow", "fast"] * 3
    assert len(ticks) == 6
    assert 0.01 <= best["slow"] < 0.05, "neither the warm-up nor the slower round counts"
    assert best["fast"] < best["slow"]


def test_the_thread_clock_counts_processor_time_only() -> None:
    x = torch.randn(300, 300)
    runs = {"waits": lambda: time.sleep(0.01), "computes": lambda: x @ x @ x}
    seconds = best_seconds(runs, 3, clock=time.thread_time)
    assert 0 <= seconds["waits"] < 0.005
    assert seconds["computes"] > 0


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 10, 11, 15, 30, 200])
def test_the_t_quantile_leaves_2_5_percent_above_it(freedom: int) -> None:
    """Integrate the density of Student's t from 0."""
    t = np.linspace(0, t_quantile(freedom), 200_001)
    height = np.exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * pi)
    density = height * (1 + t**2 / freedom) ** (-(freedom + 1) / 2)
    assert 0.5 + np.trapezoid(density, t) == pytest.approx(0.975, abs=1e-4)
