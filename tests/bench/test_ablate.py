"""Runs that are over are not run again, seeds are paired, and what goes wrong is a row."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.bench.ablate import Estimate, Outcome, Report, rows, run_trial
from glassformer.bench.curves import Curve, Point
from glassformer.bench.variants import BASELINE, Trial, Variant
from glassformer.config import RunSettings
from glassformer.data.prepare import prepare
from glassformer.errors import DataError, GlassformerError, TrainingError
from glassformer.evaluate.card import markdown
from glassformer.measure import t_quantile
from train.runs import TINY, trained


def trial(folder: Path, name: str = BASELINE, seed: int = 1, **train: Any) -> Trial:
    return Trial(Variant(name, TINY.replace(train=train)), seed, folder / name / f"seed-{seed}")


class Trainer:
    """Trains as it is told to, and counts."""

    def __init__(self, error: GlassformerError | None = None) -> None:
        self.error, self.resumed = error, list[bool]()

    def __call__(self, settings: RunSettings, folder: Path, resume: bool) -> None:
        self.resumed.append(resume)
        if self.error is not None:
            raise self.error
        trained(prepare(settings, threads=1), folder, resume=resume)


# Trying


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    train, one = Trainer(), trial(tmp_path)
    first, second = run_trial(one, train), run_trial(one, train)
    assert train.resumed == [False]
    assert first == second and first.error is None
    assert first.curve is not None and [p.step for p in first.curve.points] == [4, 8]


def test_an_interrupted_run_resumes_to_the_same_scores(tmp_path: Path) -> None:
    one, other = trial(tmp_path), trial(tmp_path / "whole")

    def stops(settings: RunSettings, folder: Path, resume: bool) -> None:
        trained(prepare(settings, threads=1), folder, stop=5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trial(one, stops)
    train = Trainer()
    resumed = run_trial(one, train)
    assert train.resumed == [True]
    assert resumed.scores("loss") == run_trial(other, train).scores("loss")


def test_a_diverged_run_is_finished_with_its_error(tmp_path: Path) -> None:
    diverging = Trainer(TrainingError("The loss is nan after 3 updates.", "why", "remedy"))
    for _ in range(2):
        outcome = run_trial(trial(tmp_path), diverging)
        assert outcome.error == "The loss is nan after 3 updates." and outcome.curve is None
    assert diverging.resumed == [False]


def test_a_failed_run_is_tried_again(tmp_path: Path) -> None:
    failing = Trainer(DataError("The disk is full.", "why", "remedy"))
    assert run_trial(trial(tmp_path), failing).error == "The disk is full."
    assert run_trial(trial(tmp_path), Trainer()).error is None


def test_a_score_that_is_not_finite_counts_as_divergence(tmp_path: Path) -> None:
    def diverge(settings: RunSettings, folder: Path, resume: bool) -> None:
        record = {"step": 4, "valid_loss": float("nan"), "seconds": 1.0}
        (folder / "log.jsonl").write_text(json.dumps(record) + "\n")

    for _ in range(2):
        error = run_trial(trial(tmp_path), diverge).error
        assert error == "The loss of validation is nan after 4 updates."


def test_unexpected_exceptions_are_not_caught(tmp_path: Path) -> None:
    def broken(settings: RunSettings, folder: Path, resume: bool) -> None:
        raise RuntimeError("a mistake in the program")

    with pytest.raises(RuntimeError):
        run_trial(trial(tmp_path), broken)


# Comparing


def outcome(name: str, seed: int, *scores: float, metric: str = "bleu", error: str = "") -> Outcome:
    """A validation a minute, 100 target tokens each."""
    one = trial(Path("runs"), name, seed)
    if error:
        return Outcome(one, error, None)
    points = [Point(i, 60.0 * i, 100 * i, {metric: s}) for i, s in enumerate(scores, start=1)]
    return Outcome(one, None, Curve(points, True))


def report(*outcomes: Outcome, metric: str = "bleu", **base: Any) -> Report:
    settings = TINY.replace(train={"metric": metric, **base})
    table = rows(outcomes, metric)
    return Report("tiny", "glassformer ablate …", settings, ["model.dropout"], table)


SEEDS = [
    outcome(BASELINE, 1, 10, 20, 18),
    outcome("x", 1, 11, 23, 22),
    outcome(BASELINE, 2, 30, 40, 38),
    outcome("x", 2, 31, 41, 41),
]


def test_scores_are_the_best_and_the_last_over_seeds() -> None:
    baseline, x = rows(SEEDS, "bleu")
    assert (baseline.name, x.name) == (BASELINE, "x")
    assert baseline.best is not None and baseline.last is not None
    assert baseline.best.values == [20, 40] and baseline.last.values == [18, 38]
    assert baseline.best.mean == 30 and baseline.best.half_width == pytest.approx(
        t_quantile(1) * 10
    )
    assert baseline.best_difference is None and baseline.last_difference is None


def test_differences_are_paired_by_seed() -> None:
    _, x = rows(SEEDS, "bleu")
    assert x.best_difference is not None and x.last_difference is not None
    assert x.best_difference.values == [3, 1] and x.last_difference.values == [4, 3]
    # far narrower than the scores themselves vary: what a seed gives to both cancels out
    assert x.best is not None and x.best.half_width is not None
    assert x.best_difference.half_width == pytest.approx(t_quantile(1) * 1)
    assert x.best_difference.half_width < x.best.half_width / 5


def test_the_best_loss_is_the_lowest() -> None:
    (row,) = rows([outcome(BASELINE, 1, 3.0, 1.0, 2.0, metric="loss")], "loss")
    assert row.best is not None and row.best.values == [1.0]


def test_a_difference_uses_the_seeds_that_both_have() -> None:
    lost = [outcome(BASELINE, 1, error="nan"), *SEEDS[1:]]
    baseline, x = rows(lost, "bleu")
    assert baseline.best is not None and baseline.best.values == [40]
    assert x.best is not None and x.best.values == [23, 41]
    assert x.best_difference is not None and x.best_difference.values == [1]
    assert x.best_difference.half_width is None


def cells(found: Report) -> list[list[str]]:
    return found.sheet().tables[0].rows


def test_the_table_has_scores_and_costs() -> None:
    assert cells(report(*SEEDS)) == [
        ["baseline: model.dropout=0.1", "2", "30.00 ± 127.06", "–", "28.00 ± 127.06", "–",
         "3", "300", "3.00"],
        ["x", "2", "32.00 ± 114.35", "+2.00 ± 12.71", "31.50 ± 120.71", "+3.50 ± 6.35",
         "3", "300", "3.00"],
    ]  # fmt: skip
    one = cells(report(*SEEDS[:2]))
    assert one[1][2:6] == ["23.00", "+3.00", "22.00", "+4.00"]


def test_an_error_is_a_row_with_its_reason() -> None:
    found = report(*SEEDS[:3], outcome("x", 2, error="nan"), outcome("y", 1, error="too long"))
    assert [row[1] for row in cells(found)] == ["2", "1 of 2", "0 of 1"]
    assert cells(found)[2][2:] == ["–"] * 7
    assert found.sheet().tables[1].rows == [["x", "seed 2: nan"], ["y", "seed 1: too long"]]
    both = rows([outcome("y", seed, error="too long") for seed in (1, 2)], "bleu")
    assert both[0].errors == ["seed 1, 2: too long"]
    assert not found.all_failed and report(outcome(BASELINE, 1, error="nan")).all_failed


def test_notes_state_the_budget_and_the_direction() -> None:
    notes = "\n".join(report(*SEEDS, max_minutes=5).notes)
    assert "8 updates or 5 minutes" in notes and "more is better" in notes
    losses = [outcome(BASELINE, 1, 3.0, metric="loss")]
    assert "less is better" in "\n".join(report(*losses, metric="loss").notes)
    assert "computed from" not in notes
    estimated = Outcome(SEEDS[0].trial, None, Curve([Point(1, 1.0, 1, {"bleu": 1.0})], False))
    assert "target tokens: computed from the speeds" in "\n".join(report(estimated).notes)


def test_json_and_markdown_contain_every_run() -> None:
    found = report(*SEEDS, outcome("y", 1, error="nan"))
    content = json.loads(json.dumps(found.to_json()))
    assert content["command"] == "glassformer ablate …" and content["machine"]["torch"]
    baseline, x, y = content["rows"]
    assert x["best_difference"]["values"] == [3, 1] and baseline["best_difference"] is None
    run = x["runs"][0]
    assert (run["seed"], run["updates"], run["minutes"], run["target_tokens"]) == (1, 3, 3, 300)
    assert [point["bleu"] for point in run["curve"]] == [11, 23, 22]
    assert y["runs"][0]["error"] == "nan" and y["best"] is None
    text = markdown(found.sheet())
    assert "| x | 2 | 32.00 ± 114.35 |" in text and "`glassformer ablate …`" in text


def test_95_percent_of_the_intervals_contain_the_true_mean() -> None:
    draws = np.random.default_rng(0).normal(3.0, 2.0, (4_000, 3))
    found = [Estimate.of(some) for some in draws.tolist()]
    held = [abs(e.mean - 3.0) <= e.half_width for e in found if e and e.half_width is not None]
    assert len(held) == 4_000 and np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_one_value_has_no_interval_and_no_value_has_no_mean() -> None:
    one = Estimate.of([2.5])
    assert one == Estimate(2.5, None, [2.5]) and one.text(".2f") == "2.50"
    assert Estimate.of([]) is None


def test_equal_values_have_an_empty_interval_and_one_sign() -> None:
    same = Estimate.of([1.0] * 5)
    assert same is not None and same.half_width == 0 and same.text("+.1f") == "+1.0 ± 0.0"
