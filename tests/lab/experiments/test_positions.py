"""Positions: tasks that depend on order, and every outcome of the rule."""

from pathlib import Path

import pytest

from glassformer.data.tokenizer import PAD
from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.positions import ACCURACY, BACK, Order, back, first, judge
from lab.fakes import quick_run, runs


def test_labels_are_symbols_of_other_positions() -> None:
    assert back([5, 6, 7, 8, 9]) == [PAD, PAD, PAD, 5, 6]
    assert first([5, 6, 7]) == [PAD, 5, 5]
    task = Order(lengths=(BACK + 1, 9), label=back)
    sources, labels = task.examples(0, 3, 4).sides
    for i in range(4):
        assert labels[i].tolist() == back(sources[i].tolist())


def test_labels_depend_on_order() -> None:
    """The same symbols in another order have other labels."""
    assert back([5, 6, 7, 8, 9])[3] != back([9, 6, 7, 8, 5])[3]
    assert first([5, 6, 7])[1:] != first([7, 6, 5])[1:]


def results(**accuracies: tuple[float, float, float]) -> Results:
    """Return results with these accuracies of sinusoids at 8, 16 and 32, per task."""
    found: list[Measurement] = []
    for task, values in accuracies.items():
        for length, value in zip((8, 16, 32), values, strict=True):
            for scheme, mean in (("sinusoidal", value), ("rope", 99.0)):
                arm = {"task": task, "positions": scheme, "length": length}
                found += runs(ACCURACY, arm, [mean - 0.2, mean, mean + 0.2])
    return Results(found)


@pytest.mark.parametrize(
    ("made", "outcome", "text"),
    [
        (results(one=(99, 97, 95), two=(99, 99, 98)), "supported", "keep their accuracy"),
        (results(one=(99, 60, 20), two=(99, 50, 10)), "not supported", "lose their accuracy"),
        (results(one=(99, 97, 95), two=(99, 50, 10)), "depends", "one: all; two: none"),
        (results(one=(99, 97, 50)), "depends", "one: some"),
        (results(one=(50, 40, 30)), "depends", "one: not learned"),
        (results(one=(99, 97, 95), two=(40, 30, 20)), "supported", "each learned task"),
    ],
)
def test_the_verdict_follows_the_rule(made: Results, outcome: str, text: str) -> None:
    verdict = judge(made)
    assert verdict.outcome == outcome
    assert text in verdict.because


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    found = quick_run("positions", tmp_path).results
    assert found.choices("length") == [8, 16, 32]
    at_trained = {
        scheme: found.summary(ACCURACY, positions=scheme, length=8).mean
        for scheme in found.choices("positions")
    }
    assert at_trained["rope"] > at_trained["none"] + 20, "without positions there is no order"
