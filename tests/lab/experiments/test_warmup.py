"""Warm-up: the rule all three ways, and a quick run."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.warmup import DIVERGED, NORM, RIGHT, WARMUP, judge
from lab.made_up import quick_run, runs


def results(post: float, pre: float) -> Results:
    """Points that warm-up brings at the higher of two rates."""
    found: list[Measurement] = []
    for residual, gain in (("post-norm", post), ("pre-norm", pre)):
        for rate in (0.001, 0.01):
            for warmup in ("yes", "no"):
                right = 50 + gain * (rate == 0.01 and warmup == "yes")
                arm = {"residual": residual, "rate": rate, WARMUP: warmup}
                found += runs(RIGHT, arm, [right, right + 1, right + 2])
    return Results(found)


@pytest.mark.parametrize(
    ("post", "pre", "outcome", "told"),
    [
        (40, 4, "supported", "post-norm: 20 points more"),
        (0, -10, "not supported", "nothing is certainly better"),
        (40, 0, "depends", "Certainly better with warm-up: post-norm."),
        (40, -10, "depends", "91% and 51% at 0.01"),
    ],
)
def test_the_verdict_follows_the_rule(post: float, pre: float, outcome: str, told: str) -> None:
    verdict = judge(results(post, pre))
    assert verdict.outcome == outcome
    assert told in verdict.because


def test_a_quick_run(tmp_path: Path) -> None:
    found = quick_run("warmup", tmp_path).results
    assert {WARMUP, "rate", "residual"} == set(found.arms(RIGHT)[0])
    assert found.summary(RIGHT, residual="pre-norm", rate=3e-3).mean > 20, "it has begun to learn"
    assert found.summary(NORM).failed == 0 and found.summary(DIVERGED).count == 1
