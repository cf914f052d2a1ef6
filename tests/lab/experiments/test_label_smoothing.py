"""Label smoothing: every outcome of the rule."""

from pathlib import Path

import pytest

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.label_smoothing import BLEU, PERPLEXITY, SMOOTHING, judge
from lab.fakes import quick_run, runs

Changes = tuple[float, float]  # of perplexity and of BLEU, by smoothing


def results(few: Changes, many: Changes) -> Results:
    found: list[Measurement] = []
    for pairs, changes in ((100, few), (900, many)):
        for smoothing, share in ((0.0, 0), (SMOOTHING, 1)):
            arm = {"pairs": pairs, "smoothing": smoothing}
            for quantity, base, change in zip((PERPLEXITY, BLEU), (3, 40), changes, strict=True):
                value = base + share * change
                found += runs(quantity, arm, [value - 0.5, value, value + 0.5])
    return Results(found)


@pytest.mark.parametrize(
    ("few", "many", "outcome", "text"),
    [
        ((1, 2), (1, 3), "supported", "raises perplexity and improves BLEU"),
        ((1, 0), (1, -2), "not supported", "does not improve BLEU"),
        ((-1, 2), (1, 3), "depends", "with 900 training pairs, and improves BLEU with 100 and 900"),
        ((1, 2), (1, 0), "depends", "improves BLEU with 100."),
    ],
)
def test_the_verdict_follows_the_rule(few: Changes, many: Changes, outcome: str, text: str) -> None:
    verdict = judge(results(few, many))
    assert verdict.outcome == outcome
    assert text in verdict.because
    assert verdict.evidence["change of BLEU by smoothing, 100 pairs"] == str(few[1])


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    found = quick_run("label-smoothing", tmp_path).results
    smoothed, plain = (found.by_seed(PERPLEXITY, smoothing=x) for x in (SMOOTHING, 0.0))
    assert 1 < smoothed[0] != plain[0] > 1
