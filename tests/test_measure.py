"""Bytes are counted right, and exponents recovered."""

import pytest
import torch
from torch.profiler import record_function

from glassformer.measure import exponent, peak_bytes, peaks_within


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
