"""Grouped heads: bytes of the cache, and the rule all three ways."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.grouped_heads import (
    CACHE,
    GROUPS,
    HEADS,
    KV,
    RIGHT,
    SCORE,
    SPEED,
    judge,
    speed,
)
from lab.made_up import quick_run, runs


def results(lost: dict[int, float], gained: dict[int, float]) -> Results:
    """Points of quality lost and tokens/s gained by 2 key-value heads and by 1."""
    found: list[Measurement] = []
    for n in (HEADS, 2, 1):
        right, fast = 90 - lost.get(n, 0.0), 1_000 + gained.get(n, 0.0)
        found += runs(RIGHT, {KV: n}, [right - 0.1, right, right + 0.1])
        found += runs(SCORE, {KV: n}, [right - 0.1, right, right + 0.1])
        for behind in (64, 512):
            arm = {KV: n, "behind": behind}
            found += runs(CACHE, arm, [n * behind] * 3)
            found += runs(SPEED, arm, [fast - 5, fast, fast + 5])
    return Results(found)


FASTER = {2: 500.0, 1: 800.0}


@pytest.mark.parametrize(
    ("made", "outcome", "told"),
    [
        (results({1: 1.0}, FASTER), "supported", "with 1, 0.125 times the cache and 1.8 times"),
        (results({1: 9.0, 2: 9.0}, FASTER), "not supported", "1: quality kept."),
        (results({}, {}), "not supported", "Not shown with 2: faster decoding"),
        (results({1: 9.0}, FASTER), "depends", "Not shown with 1: quality kept."),
    ],
)
def test_the_verdict_follows_the_rule(made: Results, outcome: str, told: str) -> None:
    verdict = judge(made)
    assert verdict.outcome == outcome
    assert told in verdict.because


def test_the_cache_is_smaller_by_as_much_as_its_heads_are_fewer() -> None:
    found = Results(speed({"behind": 16}, 0, quick=True))
    sizes = {n: found.summary(CACHE, **{KV: n}).mean for n in GROUPS}
    assert sizes == {n: sizes[HEADS] * n / HEADS for n in GROUPS}
    assert all(value > 0 for value in found.values(SPEED))


def test_a_quick_run(tmp_path: Path) -> None:
    found = quick_run("grouped-heads", tmp_path).results
    for n in (HEADS, 1):
        assert found.summary(RIGHT, **{KV: n}).mean > 15, "it has begun to learn"
    one, every = ({KV: n, "behind": 256} for n in (1, HEADS))
    assert found.summary(CACHE, **one).mean < found.summary(CACHE, **every).mean
