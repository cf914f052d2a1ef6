"""Early stopping: which score is better, and how long one waits for a better one."""

import pytest

from glassformer.config import TrainSettings
from glassformer.train.early_stopping import HIGHER_IS_BETTER, EarlyStopping


def judged(metric: str, scores, patience: int | None = None) -> list[tuple[bool, bool]]:
    """(is the best so far, should stop) after each score."""
    stopping = EarlyStopping(metric, patience)
    return [(stopping.better(score), stopping.should_stop) for score in scores]


@pytest.mark.parametrize("metric", HIGHER_IS_BETTER)
def test_the_best_is_the_lowest_loss_or_the_highest_score(metric):
    scores = [3.0, 2.0, 4.0, 4.0, 1.0, 5.0]
    best = min if metric == "loss" else max
    expected = [s == best(scores[: i + 1]) and s not in scores[:i] for i, s in enumerate(scores)]
    assert [better for better, _ in judged(metric, scores)] == expected


def test_every_metric_of_the_settings_has_a_direction():
    field = TrainSettings.model_fields["metric"].annotation
    assert set(HIGHER_IS_BETTER) == set(field.__args__)


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_it_stops_after_that_many_validations_without_a_better_one(patience):
    stops = [stop for _, stop in judged("loss", [5.0, 4.0, *[4.0] * 4], patience)]
    assert stops == [i >= 1 + patience for i in range(6)]


def test_a_better_score_starts_the_wait_anew():
    scores = [10.0, 9.0, 11.0, 10.0, 10.5, 12.0, 1.0, 1.0, 1.0]
    stops = [stop for _, stop in judged("bleu", scores, patience=3)]
    assert stops == [False] * 8 + [True]


def test_without_patience_it_never_stops():
    assert not any(stop for _, stop in judged("loss", [1.0] * 50))


def test_a_run_that_goes_on_remembers_its_best_and_its_wait():
    stopping = EarlyStopping("accuracy", patience=2)
    stopping.better(80.0), stopping.better(70.0)
    resumed = EarlyStopping(**vars(stopping))
    assert not resumed.better(79.0)
    assert resumed.should_stop and not stopping.should_stop


@pytest.mark.parametrize("metric", HIGHER_IS_BETTER)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_never_the_best_and_counts_as_a_wait(metric, bad):
    judgements = judged(metric, [bad, 1.0, bad, bad], patience=2)
    assert judgements == [(False, False), (True, False), (False, False), (False, True)]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_best_that_is_not_finite_is_not_taken_up(bad):
    stopping = EarlyStopping("loss")
    stopping.restore(metric="loss", patience=None, best=bad, waited=1)
    assert stopping.best is None and stopping.better(3.0)


@pytest.mark.parametrize("metric", HIGHER_IS_BETTER)
def test_a_target_is_reached_by_a_best_that_is_as_good(metric):
    stopping = EarlyStopping(metric)
    assert not stopping.reached(5.0)
    worse, better = (6.0, 4.0) if metric == "loss" else (4.0, 6.0)
    stopping.better(worse)
    assert not stopping.reached(5.0) and stopping.reached(worse)
    stopping.better(better)
    assert stopping.reached(5.0)
