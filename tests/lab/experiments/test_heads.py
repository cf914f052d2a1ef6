"""Heads: every outcome of the rule, and pruning."""

from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.heads import (
    ACCURACY,
    BLEU,
    DISTANCE,
    KEPT,
    SHARES,
    accuracy_after_pruning,
    judge,
)
from glassformer.lab.learning import accuracy
from glassformer.lab.sentences import QUICK
from lab.fakes import quick_run, runs


def results(two: float, four: float, spread: float = 0.2) -> Results:
    """Return results with 50 BLEU for one head, and these for two and four."""
    found: list[Measurement] = []
    for heads, score in ((1, 50.0), (2, two), (4, four)):
        found += runs(BLEU, {"heads": heads}, [score - 0.1, score, score + 0.1])
        for kept in (1.0, 0.5):
            found += runs(ACCURACY, {"heads": heads, KEPT: kept}, [80.0 * kept] * 3)
        if heads > 1:
            for trained, apart in (("no", 0.4), ("yes", 0.4 + spread)):
                arm = {"heads": heads, "trained": trained}
                found += runs(DISTANCE, arm, [apart, apart + 0.01, apart])
    return Results(found)


@pytest.mark.parametrize(
    ("made", "outcome", "text"),
    [
        (results(55, 60), "supported", "Several heads have higher BLEU"),
        (results(50, 49), "not supported", "No number of heads has higher BLEU"),
        (results(50, 60), "depends", "one head: 4 heads;"),
        (results(55, 60, spread=-0.1), "depends", "after training: no heads"),
    ],
)
def test_the_verdict_follows_the_rule(made: Results, outcome: str, text: str) -> None:
    verdict = judge(made)
    assert verdict.outcome == outcome
    assert text in verdict.because
    assert len(verdict.evidence) == 4


def test_a_gain_within_the_interval_is_no_gain() -> None:
    made = results(50, 50)
    made.measurements += runs(BLEU, {"heads": 8}, [45.0, 52.0, 58.0])
    made.measurements += [
        *runs(ACCURACY, {"heads": 8, KEPT: 1.0}, [80.0] * 3),
        *runs(ACCURACY, {"heads": 8, KEPT: 0.5}, [40.0] * 3),
        *runs(DISTANCE, {"heads": 8, "trained": "yes"}, [0.5, 0.6, 0.5]),
        *runs(DISTANCE, {"heads": 8, "trained": "no"}, [0.1, 0.1, 0.1]),
    ]
    assert judge(made).outcome == "not supported"


def test_pruning_starts_with_all_heads_and_ends_with_none() -> None:
    torch.manual_seed(0)
    model = QUICK.translator(n_heads=2)
    found = dict(accuracy_after_pruning(model, QUICK, seed=0))
    assert tuple(found) == SHARES
    assert found[1.0] == accuracy(model, QUICK.held_out())


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    found = quick_run("heads", tmp_path).results
    for heads in found.choices("heads"):
        assert len(found.by_seed(BLEU, heads=heads)) == 1
        assert found.summary(ACCURACY, heads=heads, **{KEPT: 1.0}).mean > 15, "learning has started"
        with_none, with_all = (
            found.summary(ACCURACY, heads=heads, **{KEPT: x}).mean for x in (0.0, 1.0)
        )
        assert with_none < with_all
    assert not found.by_seed(DISTANCE, heads=1) and found.by_seed(DISTANCE, heads=4)
