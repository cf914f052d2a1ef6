"""Cost: measured bytes, and every outcome of the rule."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.cost import (
    CLAIMED,
    EXPONENT,
    HEADS,
    MEMORY,
    Lengths,
    attention_costs,
    decoding_costs,
    judge,
)
from glassformer.model.build import build
from glassformer.model.transformer import LanguageModel
from lab.fakes import quick_run, runs

TINY = Lengths((256, 512, 1_024), (8, 16, 32), rounds=1, steps=2)


def results(off: dict[tuple[str, str], float], noise: float = 0.01) -> Results:
    """Return exponents as claimed, plus the offsets in `off`."""
    found: list[Measurement] = []
    for (what, cost), power in CLAIMED.items():
        mean = power + off.get((what, cost), 0.0)
        arm = {"operation": what, "cost": cost, "claimed": power}
        found += runs(EXPONENT, arm, [mean - noise, mean, mean + noise])
    return Results(found)


FUSED = ("attention, fused", MEMORY)


@pytest.mark.parametrize(
    ("made", "outcome", "text"),
    [
        (results({}), "supported", "Every cost grows"),
        (results({FUSED: 1.0}), "depends", "claimed growth: attention, fused (bytes)."),
        (results({}, noise=0.5), "depends", "claimed growth: attention, readable (seconds); "),
        (results(dict.fromkeys(CLAIMED, 1.0)), "not supported", "cache (bytes)."),
    ],
)
def test_the_verdict_follows_the_rule(made: Results, outcome: str, text: str) -> None:
    verdict = judge(made)
    assert verdict.outcome == outcome
    assert text in verdict.because


def test_the_readable_kernel_stores_all_scores_and_the_fused_one_does_not() -> None:
    costs = attention_costs(TINY)
    readable, fused = (costs[f"attention, {name}", MEMORY] for name in ("readable", "fused"))
    for n in TINY.attention:
        scores = 4 * HEADS * n * n
        assert 2 * scores <= readable[n] < 8 * scores, "scores and their softmax, at least"
    assert fused[1_024] < 4 * HEADS * 1_024**2 / 2


def test_the_cache_stores_a_key_and_a_value_per_token_and_layer() -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "vocab_size": 20, "decoder_layers": 3}
    model = build("tiny", kind="language-model", **sizes).eval()
    assert isinstance(model, LanguageModel)
    costs = decoding_costs(model, TINY)
    assert costs["cache", MEMORY] == {n: 3 * 2 * n * 16 * 4 for n in TINY.decoding}
    assert {what for what, _ in costs} <= {what for what, _ in CLAIMED}


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    found = quick_run("cost", tmp_path).results
    powers = {of: found.summary(EXPONENT, operation=of[0], cost=of[1]).mean for of in CLAIMED}
    assert powers["cache", MEMORY] == pytest.approx(1)
    assert powers["attention, readable", MEMORY] > powers[FUSED] + 0.4
