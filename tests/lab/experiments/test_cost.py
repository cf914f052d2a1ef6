"""Cost: what is counted, and the rule all three ways."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.cost import (
    CLAIMED,
    GROWTH,
    HEADS,
    MEMORY,
    Lengths,
    attention_costs,
    decoding_costs,
    judge,
)
from glassformer.model.build import build
from glassformer.model.transformer import LanguageModel
from lab.made_up import quick_run, runs

TINY = Lengths((256, 512, 1_024), (8, 16, 32), turns=1, steps=2)


def results(off: dict[tuple[str, str], float], noise: float = 0.01) -> Results:
    """Exponents as claimed, but for those that are `off` by so much."""
    found: list[Measurement] = []
    for (what, cost), power in CLAIMED.items():
        mean = power + off.get((what, cost), 0.0)
        arm = {"what": what, "cost": cost}
        found += runs(GROWTH, arm, [mean - noise, mean, mean + noise])
    return Results(found)


FUSED = ("attention, fused", MEMORY)


@pytest.mark.parametrize(
    ("made", "outcome", "told"),
    [
        (results({}), "supported", "attention, fused, bytes: n^1 [0.9752, 1.025], claimed 1"),
        (results({FUSED: 1.0}), "depends", "not certainly: attention, fused, bytes."),
        (results({}, noise=0.5), "depends", "not certainly: attention, readable, seconds; "),
        (results(dict.fromkeys(CLAIMED, 1.0)), "not supported", "the cache, bytes."),
    ],
)
def test_the_verdict_follows_the_rule(made: Results, outcome: str, told: str) -> None:
    verdict = judge(made)
    assert verdict.outcome == outcome
    assert told in verdict.because


def test_the_readable_kernel_holds_its_scores_and_the_fused_one_does_not() -> None:
    costs = attention_costs(TINY)
    readable, fused = (costs[f"attention, {name}", MEMORY] for name in ("readable", "fused"))
    for n in TINY.attention:
        scores = 4 * HEADS * n * n
        assert 2 * scores <= readable[n] < 8 * scores, "scores and their softmax, at least"
    assert fused[1_024] < 4 * HEADS * 1_024**2 / 2


def test_the_cache_holds_a_key_and_a_value_of_each_token_in_each_layer() -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "vocab_size": 20, "decoder_layers": 3}
    model = build("tiny", kind="language-model", **sizes).eval()
    assert isinstance(model, LanguageModel)
    costs = decoding_costs(model, TINY)
    assert costs["the cache", MEMORY] == {n: 3 * 2 * n * 16 * 4 for n in TINY.decoding}
    assert {what for what, _ in costs} <= {what for what, _ in CLAIMED}


def test_a_quick_run(tmp_path: Path) -> None:
    found = quick_run("cost", tmp_path).results
    powers = {of: found.summary(GROWTH, what=of[0], cost=of[1]).mean for of in CLAIMED}
    assert powers["the cache", MEMORY] == pytest.approx(1)
    assert powers["attention, readable", MEMORY] > powers[FUSED] + 0.4
