"""Label smoothing: the rule all three ways, and a quick run."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.label_smoothing import PERPLEXITY, SCORE, SMOOTHING, judge
from lab.made_up import quick_run, runs

Changes = tuple[float, float]  # of perplexity and of BLEU, by smoothing


def results(few: Changes, many: Changes) -> Results:
    found: list[Measurement] = []
    for pairs, changes in ((100, few), (900, many)):
        for smoothing, share in ((0.0, 0), (SMOOTHING, 1)):
            arm = {"pairs": pairs, "smoothing": smoothing}
            for quantity, base, change in zip((PERPLEXITY, SCORE), (3, 40), changes, strict=True):
                value = base + share * change
                found += runs(quantity, arm, [value - 0.5, value, value + 0.5])
    return Results(found)


@pytest.mark.parametrize(
    ("few", "many", "outcome", "told"),
    [
        ((1, 2), (1, 3), "supported", "perplexity 1 (without it 3"),
        ((1, 0), (1, -2), "not supported", "nowhere better"),
        ((-1, 2), (1, 3), "depends", "worse with 900 pairs, BLEU better with 100 and 900"),
        ((1, 2), (1, 0), "depends", "BLEU better with 100."),
    ],
)
def test_the_verdict_follows_the_rule(few: Changes, many: Changes, outcome: str, told: str) -> None:
    verdict = judge(results(few, many))
    assert verdict.outcome == outcome
    assert told in verdict.because


def test_a_quick_run(tmp_path: Path) -> None:
    found = quick_run("label-smoothing", tmp_path).results
    smoothed, plain = (found.by_seed(PERPLEXITY, smoothing=x) for x in (SMOOTHING, 0.0))
    assert 1 < smoothed[0] != plain[0] > 1
