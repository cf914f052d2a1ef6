"""The experiment on 1/√d_k."""

from math import inf
from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.scaling import (
    ENTROPY,
    SLOPE,
    STEPS_TO_95,
    attention_at_start,
    encoder,
    judge,
)
from lab.fakes import quick_run, runs


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    finding = quick_run("scaling", tmp_path)
    start = finding.results.summary
    for d_k in finding.results.choices("d_k"):
        scaled, plain = (start(ENTROPY, d_k=d_k, scaled=s) for s in ("yes", "no"))
        assert 0 <= plain.mean < scaled.mean <= 1


def test_unscaled_attention_gets_sharper_with_d_k() -> None:
    """The footnote of §3.2.1: scaled dot products have the same variance at any d_k."""
    narrow, wide = (attention_at_start(encoder(d_k, True, 0)).max(-1).values for d_k in (32, 128))
    assert narrow.mean().item() == pytest.approx(wide.mean().item(), abs=0.1)
    unscaled = attention_at_start(encoder(128, False, 0)).max(-1).values
    assert unscaled.mean() > wide.mean() + 0.3
    assert torch.isfinite(unscaled).all()


def results(
    steps: dict[int, list[float]], slope: float, scaled: tuple[float, ...] = (100.0, 101.0, 102.0)
) -> Results:
    """Return unscaled runs with these `steps` and `slope`; scaled runs take 100 and have 0.6."""
    found: list[Measurement] = []
    for d_k, unscaled in steps.items():
        for factor, values, flat in (("yes", scaled, 0.6), ("no", unscaled, slope)):
            arm = {"d_k": d_k, "scaled": factor}
            found += runs(STEPS_TO_95, arm, values)
            found += runs(SLOPE, arm, [flat, flat + 0.01, flat])
    return Results(found)


SLOWER, ALIKE, NEVER = [150.0, 160.0, 155.0], [90.0, 120.0, 101.0], [inf, inf, inf]


@pytest.mark.parametrize(
    ("steps", "slope", "outcome"),
    [
        ({8: ALIKE, 128: SLOWER, 512: NEVER}, 0.01, "supported"),
        ({8: SLOWER, 128: ALIKE, 512: NEVER}, 0.01, "depends"),
        ({8: ALIKE, 128: SLOWER, 512: NEVER}, 0.6, "depends"),  # slower for another reason
        ({8: SLOWER, 128: ALIKE, 512: ALIKE}, 0.01, "not supported"),
    ],
)
def test_the_verdict_follows_the_rule(
    steps: dict[int, list[float]], slope: float, outcome: str
) -> None:
    verdict = judge(results(steps, slope))
    assert verdict.outcome == outcome
    assert verdict.because.startswith("Without the factor")


def test_too_few_steps_give_no_verdict() -> None:
    verdict = judge(results({128: NEVER, 512: NEVER}, 0.01, (inf, inf, 100.0)))
    assert verdict.outcome == "depends" and verdict.because.startswith("Too few steps")
