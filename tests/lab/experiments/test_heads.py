"""Heads: the rule comes out all three ways, and what is measured is what it says."""

from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.heads import APART, RIGHT, SCORE, SHARES, judge, pruned
from glassformer.lab.learning import accuracy
from glassformer.lab.sentences import QUICK
from lab.made_up import quick_run, runs


def results(two: float, four: float, spread: float = 0.2) -> Results:
    """One head has 50 BLEU, two and four have these."""
    found: list[Measurement] = []
    for heads, score in ((1, 50.0), (2, two), (4, four)):
        found += runs(SCORE, {"heads": heads}, [score - 0.1, score, score + 0.1])
        for left in (1.0, 0.5):
            found += runs(RIGHT, {"heads": heads, "left": left}, [80.0 * left] * 3)
        if heads > 1:
            for trained, apart in (("no", 0.4), ("yes", 0.4 + spread)):
                arm = {"heads": heads, "trained": trained}
                found += runs(APART, arm, [apart, apart + 0.01, apart])
    return Results(found)


@pytest.mark.parametrize(
    ("made", "outcome", "told"),
    [
        (results(55, 60), "supported", "5 (2 heads), 10 (4 heads)"),
        (results(50, 49), "not supported", "No number of heads is better than one"),
        (results(50, 60), "depends", "Better than one: 4;"),
        (results(55, 60, spread=-0.1), "depends", "farther apart than untrained: none"),
    ],
)
def test_the_verdict_follows_the_rule(made: Results, outcome: str, told: str) -> None:
    verdict = judge(made)
    assert verdict.outcome == outcome
    assert told in verdict.because and "with half of them 40%" in verdict.because


def test_a_gain_within_chance_is_no_gain() -> None:
    made = results(50, 50)
    made.measurements += runs(SCORE, {"heads": 8}, [45.0, 52.0, 58.0])
    made.measurements += [
        *runs(RIGHT, {"heads": 8, "left": 1.0}, [80.0] * 3),
        *runs(RIGHT, {"heads": 8, "left": 0.5}, [40.0] * 3),
        *runs(APART, {"heads": 8, "trained": "yes"}, [0.5, 0.6, 0.5]),
        *runs(APART, {"heads": 8, "trained": "no"}, [0.1, 0.1, 0.1]),
    ]
    assert judge(made).outcome == "not supported"


def test_pruning_begins_with_the_whole_model_and_ends_without_heads() -> None:
    torch.manual_seed(0)
    model = QUICK.translator(n_heads=2)
    found = dict(pruned(model, QUICK, seed=0))
    assert tuple(found) == SHARES
    assert found[1.0] == accuracy(model, QUICK.held_out())


def test_a_quick_run(tmp_path: Path) -> None:
    found = quick_run("heads", tmp_path).results
    for heads in found.choices("heads"):
        assert len(found.by_seed(SCORE, heads=heads)) == 1
        assert found.summary(RIGHT, heads=heads, left=1.0).mean > 15, "it has begun to learn"
        with_none, with_all = (found.summary(RIGHT, heads=heads, left=x).mean for x in (0.0, 1.0))
        assert with_none < with_all
    assert not found.by_seed(APART, heads=1) and found.by_seed(APART, heads=4)
