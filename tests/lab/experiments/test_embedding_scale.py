"""The factor √d_model: taken away it is gone everywhere, and the rule all three ways."""

from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.embedding_scale import (
    RIGHT,
    SHARE,
    TASK,
    judge,
    share_of_words,
    unscale,
)
from glassformer.lab.learning import small
from lab.made_up import quick_run, runs


def test_without_the_factor_every_embedding_is_smaller_by_it() -> None:
    model = small(TASK, d_model=64)
    ids = TASK.held_out(2).inputs[0]
    before = [stack.embedding(ids) for stack in (model.encoder, model.decoder)]
    unscale(model)
    for x, stack in zip(before, (model.encoder, model.decoder), strict=True):
        torch.testing.assert_close(stack.embedding(ids) * 8, x)


@pytest.mark.parametrize("width", [32, 128])
def test_words_are_two_thirds_of_the_input_with_the_factor(width: int) -> None:
    """Variance 1 beside sinusoids, whose square has a mean of a half; without it 1 / d_model."""
    torch.manual_seed(0)
    model = small(TASK, d_model=width)
    assert share_of_words(model) == pytest.approx(2 / 3, abs=0.05)
    unscale(model)
    assert share_of_words(model) == pytest.approx(1 / (1 + width / 2), rel=0.2)


def results(*gains: float) -> Results:
    """Points that the factor brings, width by width."""
    found: list[Measurement] = []
    for width, gain in zip((32, 128), gains, strict=True):
        for scaled, right in (("yes", 60 + gain), ("no", 60.0)):
            arm = {"residual": "pre-norm", "d_model": width, "scaled": scaled}
            found += runs(RIGHT, arm, [right, right + 1, right + 2])
            found += runs(SHARE, arm, [0.5, 0.5, 0.5])
    return Results(found)


@pytest.mark.parametrize(
    ("gains", "outcome", "told"),
    [
        ((5, 9), "supported", "9 points more"),
        ((0, -9), "not supported", "no model certainly better"),
        ((0, 9), "depends", "with the factor: pre-norm, d_model 128."),
    ],
)
def test_the_verdict_follows_the_rule(gains: tuple[float, float], outcome: str, told: str) -> None:
    verdict = judge(results(*gains))
    assert verdict.outcome == outcome
    assert told in verdict.because


def test_a_quick_run(tmp_path: Path) -> None:
    found = quick_run("embedding-scale", tmp_path).results
    assert found.summary(SHARE, scaled="yes").mean > found.summary(SHARE, scaled="no").mean
    assert found.summary(RIGHT, scaled="yes").mean > 25, "it has begun to learn"
