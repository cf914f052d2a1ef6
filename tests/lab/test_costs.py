"""Seconds: the best turn counts, and only what the processor spent."""

from time import sleep

import torch

from glassformer.lab.costs import seconds


def test_whoever_waits_spends_nothing_and_whoever_computes_does() -> None:
    x = torch.randn(300, 300)
    spent = seconds({"waits": lambda: sleep(0.01), "computes": lambda: x @ x @ x}, turns=3)
    assert 0 <= spent["waits"] < 0.005
    assert spent["computes"] > 0


def test_contenders_take_turns_and_the_first_only_warms_up() -> None:
    order: list[str] = []
    seconds({1: lambda: order.append("one"), 2: lambda: order.append("two")}, turns=2)
    assert order == ["one", "two"] * 3
