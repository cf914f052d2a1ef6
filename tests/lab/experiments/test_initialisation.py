"""The experiment on initialisation."""

from math import inf, sqrt
from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.initialisation import INITS, STREAM, TASK, encoder, growth, judge
from glassformer.train.optimizer import layer_matrices
from lab.fakes import quick_run, runs


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    results = quick_run("initialisation", tmp_path).results
    grown = {
        name: results.summary(STREAM, residual="pre-norm", initialisation=name, depth=4).mean
        for name in INITS
    }
    assert grown["normal, 0.02"] < grown["depth-scaled"] < grown["Xavier"] < grown["normal, 1"]


@pytest.mark.parametrize(("name", "deviation"), [("normal, 0.02", 0.02), ("normal, 1", 1.0)])
def test_plain_weights_have_one_deviation_in_all_layers(name: str, deviation: float) -> None:
    arm = {"residual": "pre-norm", "initialisation": name, "depth": 4}
    weights = torch.cat([matrix.flatten() for matrix in layer_matrices(encoder(arm, 0))])
    assert weights.std().item() == pytest.approx(deviation, rel=0.02)


def test_embeddings_have_the_same_deviation_in_all_arms() -> None:
    arms = ({"residual": "pre-norm", "initialisation": name, "depth": 2} for name in INITS)
    tables = [encoder(arm, 0).encoder.embedding.weight for arm in arms]
    for table in tables:
        assert table.std().item() == pytest.approx(1 / sqrt(32), rel=0.15)


def test_growth_is_the_ratio_of_output_to_input_norm() -> None:
    model = encoder({"residual": "pre-norm", "initialisation": "Xavier", "depth": 2}, 0).eval()
    ids = TASK.held_out(3).inputs[0]
    inside = model.encoder.embed(ids, torch.arange(ids.size(1)))
    first = inside.norm()
    for layer in model.encoder.layers:
        inside = layer(inside)
    assert growth(model, ids) == pytest.approx((inside.norm() / first).item(), rel=1e-5)
    assert not model.encoder.layers[0]._forward_pre_hooks


def results(reach: dict[tuple[str, str], int]) -> Results:
    """Return results that learn up to these depths; up to 24 by default."""
    found: list[Measurement] = []
    for residual in ("post-norm", "pre-norm"):
        for name in INITS:
            for depth in (2, 8, 24):
                arm = {"residual": residual, "initialisation": name, "depth": depth}
                steps = 50.0 if depth <= reach.get((residual, name), 24) else inf
                found += runs("steps to 90%", arm, [steps, steps, inf])
                found += runs(STREAM, arm, [1.0, 2.0, 3.0])
    return Results(found)


PLAIN = [(r, p) for r in ("post-norm", "pre-norm") for p in ("normal, 0.02", "normal, 1")]


@pytest.mark.parametrize(
    ("reach", "outcome"),
    [
        (dict.fromkeys(PLAIN, 8), "supported"),
        (dict.fromkeys(PLAIN, 0) | {("post-norm", "Xavier"): 2}, "supported"),
        (dict.fromkeys(PLAIN[:3], 8), "depends"),
        ({}, "not supported"),
        ({(r, name): 0 for r in ("post-norm", "pre-norm") for name in INITS}, "depends"),
        ({("pre-norm", "Xavier"): 2, ("pre-norm", "depth-scaled"): 2}, "not supported"),
    ],
)
def test_the_verdict_follows_the_rule(reach: dict[tuple[str, str], int], outcome: str) -> None:
    verdict = judge(results(reach))
    assert verdict.outcome == outcome
    assert len(verdict.evidence) == 2 * len(INITS)
    learned = reach.get(("post-norm", "Xavier"), 24)
    assert verdict.evidence["deepest stack that learns, post-norm, Xavier"] == str(learned)
