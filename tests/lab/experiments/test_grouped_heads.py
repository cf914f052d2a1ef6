"""Grouped heads: bytes of the cache, and every outcome of the rule."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.grouped_heads import (
    ACCURACY,
    BLEU,
    CACHE,
    CONTEXT,
    GROUPS,
    HEADS,
    KV,
    SPEED,
    judge,
    speed,
)
from lab.fakes import quick_run, runs


def results(lost: dict[int, float], gained: dict[int, float]) -> Results:
    """Return results with these losses in points and gains in tokens/s, by key-value heads."""
    found: list[Measurement] = []
    for n in (HEADS, 2, 1):
        right, fast = 90 - lost.get(n, 0.0), 1_000 + gained.get(n, 0.0)
        found += runs(ACCURACY, {KV: n}, [right - 0.1, right, right + 0.1])
        found += runs(BLEU, {KV: n}, [right - 0.1, right, right + 0.1])
        for context in (64, 512):
            arm = {KV: n, CONTEXT: context}
            found += runs(CACHE, arm, [n * context] * 3)
            found += runs(SPEED, arm, [fast - 5, fast, fast + 5])
    return Results(found)


FASTER = {2: 500.0, 1: 800.0}


@pytest.mark.parametrize(
    ("made", "outcome", "text"),
    [
        (results({1: 1.0}, FASTER), "supported", "keep the quality"),
        (
            results({1: 9.0, 2: 9.0}, FASTER),
            "not supported",
            "quality with 2 of 8; quality with 1 of 8",
        ),
        (results({}, {}), "not supported", "Not shown: faster decoding with 2"),
        (results({1: 9.0}, FASTER), "depends", "Not shown: quality with 1 of 8 key-value heads."),
    ],
)
def test_the_verdict_follows_the_rule(made: Results, outcome: str, text: str) -> None:
    verdict = judge(made)
    assert verdict.outcome == outcome
    assert text in verdict.because
    assert verdict.evidence["1 key-value heads against 8: cache, ratio"] == "0.125"


def test_the_cache_is_proportional_to_the_key_value_heads() -> None:
    found = Results(speed({CONTEXT: 16}, 0, quick=True))
    sizes = {n: found.summary(CACHE, **{KV: n}).mean for n in GROUPS}
    assert sizes == {n: sizes[HEADS] * n / HEADS for n in GROUPS}
    assert all(value > 0 for value in found.values(SPEED))


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    found = quick_run("grouped-heads", tmp_path).results
    for n in (HEADS, 1):
        assert found.summary(ACCURACY, **{KV: n}).mean > 15, "learning has started"
    one, every = ({KV: n, CONTEXT: 256} for n in (1, HEADS))
    assert found.summary(CACHE, **one).mean < found.summary(CACHE, **every).mean
