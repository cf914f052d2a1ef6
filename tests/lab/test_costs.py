"""Costs: the best turn counts, bytes are torch's own, exponents are those of the powers."""

from time import sleep

import pytest
import torch

from glassformer.lab.costs import exponent, peak_bytes, seconds


def test_whoever_waits_spends_nothing_and_whoever_computes_does() -> None:
    x = torch.randn(300, 300)
    spent = seconds({"waits": lambda: sleep(0.01), "computes": lambda: x @ x @ x}, turns=3)
    assert 0 <= spent["waits"] < 0.005
    assert spent["computes"] > 0


def test_contenders_take_turns_and_the_first_only_warms_up() -> None:
    order: list[str] = []
    seconds({1: lambda: order.append("one"), 2: lambda: order.append("two")}, turns=2)
    assert order == ["one", "two"] * 3


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
