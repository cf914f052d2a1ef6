"""The factor √d_model: its removal, and every outcome of the rule."""

from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.embedding_scale import (
    ACCURACY,
    SHARE,
    TASK,
    judge,
    token_share,
    unscale,
)
from glassformer.lab.learning import small_model
from lab.fakes import quick_run, runs


def test_unscale_removes_the_factor_from_every_embedding() -> None:
    model = small_model(TASK, d_model=64)
    ids = TASK.held_out(2).inputs[0]
    before = [stack.embedding(ids) for stack in (model.encoder, model.decoder)]
    unscale(model)
    for x, stack in zip(before, (model.encoder, model.decoder), strict=True):
        torch.testing.assert_close(stack.embedding(ids) * 8, x)


@pytest.mark.parametrize("width", [32, 128])
def test_tokens_are_two_thirds_of_the_input_with_the_factor(width: int) -> None:
    """Variance 1 beside sinusoids, whose square has a mean of a half; without it 1 / d_model."""
    torch.manual_seed(0)
    model = small_model(TASK, d_model=width)
    assert token_share(model) == pytest.approx(2 / 3, abs=0.05)
    unscale(model)
    assert token_share(model) == pytest.approx(1 / (1 + width / 2), rel=0.2)


def results(*gains: float) -> Results:
    """Return results with these gains by the factor in points, one per width."""
    found: list[Measurement] = []
    for width, gain in zip((32, 128), gains, strict=True):
        for scaled, right in (("yes", 60 + gain), ("no", 60.0)):
            arm = {"residual": "pre-norm", "d_model": width, "scaled": scaled}
            found += runs(ACCURACY, arm, [right, right + 1, right + 2])
            found += runs(SHARE, arm, [0.5, 0.5, 0.5])
    return Results(found)


@pytest.mark.parametrize(
    ("gains", "outcome", "text"),
    [
        ((5, 9), "supported", "Every model"),
        ((0, -9), "not supported", "No model"),
        ((0, 9), "depends", "in pre-norm with d_model 128, but not in pre-norm with d_model 32."),
    ],
)
def test_the_verdict_follows_the_rule(gains: tuple[float, float], outcome: str, text: str) -> None:
    verdict = judge(results(*gains))
    assert verdict.outcome == outcome
    assert text in verdict.because
    assert len(verdict.evidence) == 2


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    found = quick_run("embedding-scale", tmp_path).results
    assert found.summary(SHARE, scaled="yes").mean > found.summary(SHARE, scaled="no").mean
    assert found.summary(ACCURACY, scaled="yes").mean > 25, "learning has started"
