"""The measuring itself: turns taken fairly, bytes counted right, exponents recovered."""

import time

import pytest
import torch

from glassformer.bench.harness import Report, Table, exponent, interleave, peak_bytes


def test_contenders_take_turns_and_the_best_round_counts() -> None:
    order: list[str] = []
    naps = iter([0.0, 0.05, 0.01])

    def slow() -> None:
        order.append("slow")
        time.sleep(next(naps))

    ticks: list[int] = []
    best = interleave(
        {"slow": slow, "fast": lambda: order.append("fast")}, 2, lambda: ticks.append(1)
    )
    assert order == ["slow", "fast"] * 3
    assert len(ticks) == 6
    assert 0.01 <= best["slow"] < 0.05, "the warm-up does not count, the slower round neither"
    assert best["fast"] < best["slow"]


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


def test_the_worst_ratio_is_the_smallest() -> None:
    report = Report("command", [Table("t", ["a"], [["x"]])], {"forward": 1.3, "backward": 1.1})
    assert report.worst_ratio == 1.1
