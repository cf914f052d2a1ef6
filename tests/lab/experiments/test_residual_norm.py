"""The experiment on residuals and norms."""

from math import inf
from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.residual_norm import NORM, TASK, VARIANTS, judge, tagger
from glassformer.lab.learning import small_model
from lab.fakes import quick_run, runs


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    results = quick_run("residual-norm", tmp_path).results
    assert results.choices("layer") == [1, 2, 3, 4]
    layers = [results.summary(NORM, variant="none", depth=4, layer=n) for n in (1, 4)]
    assert layers[0].mean < layers[1].mean, "gradients vanish without residuals"


def test_each_variant_computes_its_equation() -> None:
    x, double = torch.randn(2, 3, 32), lambda t: 2 * t
    around = {name: variant.residual() for name, variant in VARIANTS.items()}
    norm = torch.nn.LayerNorm(32)
    rms = torch.nn.RMSNorm(32, eps=1e-5)
    wanted = {
        "none": 2 * x,
        "residual only": 3 * x,
        "norm only": norm(2 * x),
        "post-norm": norm(3 * x),
        "pre-norm": x + 2 * norm(x),
        "pre-norm, RMSNorm": x + 2 * rms(x),
    }
    assert list(wanted) == list(VARIANTS)
    for name, output in wanted.items():
        torch.testing.assert_close(around[name](x, double), output)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("post-norm", {"residual": "post-norm"}),
        ("pre-norm", {"residual": "pre-norm"}),
        ("pre-norm, RMSNorm", {"residual": "pre-norm", "norm": "rms-norm"}),
    ],
)
def test_variants_with_a_setting_equal_what_build_makes(
    name: str, settings: dict[str, str]
) -> None:
    torch.manual_seed(4)
    ours = tagger(VARIANTS[name], 3)
    built = small_model(TASK, encoder_layers=3, **settings)
    built.load_state_dict(ours.state_dict())
    batch = TASK.held_out(4)
    torch.testing.assert_close(ours.eval()(*batch.inputs), built.eval()(*batch.inputs))


def results(learned: dict[str, list[float]], shallow: float = 40.0) -> Results:
    """Return results with these steps to 90% at depth 24 with warm-up; all learn at depth 2."""
    found: list[Measurement] = []
    for name in VARIANTS:
        for depth in (2, 24):
            for warmup in ("none", "yes"):
                arm = {"variant": name, "depth": depth, "warm-up": warmup}
                deep = learned.get(name, [inf] * 3) if warmup == "yes" else [inf] * 3
                found += runs("steps to 90%", arm, [shallow] * 3 if depth == 2 else deep)
                found += runs("accuracy, %", arm, [50.0] * 3)
    return Results(found)


BOTH = {name: [80.0, 90.0, inf] for name in VARIANTS if VARIANTS[name].both}


@pytest.mark.parametrize(
    ("learned", "outcome"),
    [
        (BOTH, "supported"),
        (
            BOTH | {"residual only": [90.0, inf, inf]},
            "supported",
        ),  # one seed of three is not enough
        ({"pre-norm": [80.0] * 3}, "depends"),
        (BOTH | {"norm only": [90.0] * 3}, "not supported"),
        ({}, "not supported"),
    ],
)
def test_the_verdict_follows_the_rule(learned: dict[str, list[float]], outcome: str) -> None:
    verdict = judge(results(learned))
    assert verdict.outcome == outcome
    assert verdict.because.startswith("Variants that learn with 24 layers: ")


def test_too_few_steps_give_no_verdict() -> None:
    verdict = judge(results({}, shallow=inf))
    assert verdict.outcome == "depends" and verdict.because.startswith("Too few steps")
