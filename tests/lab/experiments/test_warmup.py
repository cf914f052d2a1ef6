"""Warm-up: every outcome of the rule."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.warmup import ACCURACY, DIVERGED, NORM, RATE, WARMUP, judge
from lab.fakes import quick_run, runs


def results(post: float, pre: float) -> Results:
    """Return results with these gains by warm-up at the higher of two rates."""
    found: list[Measurement] = []
    for residual, gain in (("post-norm", post), ("pre-norm", pre)):
        for rate in (0.001, 0.01):
            for warmup in ("yes", "no"):
                right = 50 + gain * (rate == 0.01 and warmup == "yes")
                arm = {"residual": residual, RATE: rate, WARMUP: warmup}
                found += runs(ACCURACY, arm, [right, right + 1, right + 2])
    return Results(found)


@pytest.mark.parametrize(
    ("post", "pre", "outcome", "text"),
    [
        (40, 4, "supported", "in post-norm and in pre-norm."),
        (0, -10, "not supported", "in no model"),
        (40, 0, "depends", "in post-norm, but not in pre-norm."),
        (40, -10, "depends", "in post-norm, but not in pre-norm."),
    ],
)
def test_the_verdict_follows_the_rule(post: float, pre: float, outcome: str, text: str) -> None:
    verdict = judge(results(post, pre))
    assert verdict.outcome == outcome
    assert text in verdict.because
    gain = "accuracy gain by warm-up, points, post-norm, mean of all rates"
    assert verdict.evidence[gain] == f"{post / 2:g}"


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    found = quick_run("warmup", tmp_path).results
    assert {WARMUP, RATE, "residual"} == set(found.arms(ACCURACY)[0])
    assert found.summary(ACCURACY, residual="pre-norm", **{RATE: 3e-3}).mean > 20, (
        "learning has started"
    )
    assert found.summary(NORM).failed == 0 and found.summary(DIVERGED).count == 1
