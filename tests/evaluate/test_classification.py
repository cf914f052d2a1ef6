"""The score card of a classifier, by hand and by definition."""

import json
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import DataError
from glassformer.evaluate import examples
from glassformer.evaluate.card import Circumstances, markdown
from glassformer.evaluate.classification import (
    BINS,
    Predictions,
    calibration,
    calibration_error,
    classification_card,
    classify,
    wilson,
)
from glassformer.pipeline import Classification

AROUND = Circumstances(
    "glassformer evaluate m", "m", {"a.jsonl": "12ab"}, {"int8": False}, {"cpu": "x"}, 2.0, None
)
LABELS = ["cat", "dog", "owl", "fox"]
# predicted: cat, cat, dog, dog, owl, cat; no fox is true or predicted
PROBABILITIES = np.array(
    [
        [0.70, 0.10, 0.10, 0.10],
        [0.50, 0.30, 0.10, 0.10],
        [0.05, 0.90, 0.05, 0.00],
        [0.20, 0.40, 0.30, 0.10],
        [0.00, 0.00, 1.00, 0.00],
        [0.60, 0.20, 0.20, 0.00],
    ]
)
TRUTH = ["cat", "dog", "dog", "owl", "owl", "cat"]


def card(truth=TRUTH):
    return classification_card(Predictions(LABELS, PROBABILITIES, 3.0, None), truth, AROUND)


def test_scores_by_label_equal_those_computed_by_hand():
    c = card()
    assert c.texts == 6 and c.accuracy.value == pytest.approx(4 / 6)
    assert c.confusion == [[2, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    cat, dog, owl, fox = c.classes
    assert (cat.precision, cat.recall, cat.true, cat.predicted) == (pytest.approx(2 / 3), 1.0, 2, 3)
    assert cat.f1 == pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))
    assert (dog.precision, dog.recall, dog.f1) == (0.5, 0.5, 0.5)
    assert (owl.precision, owl.recall, owl.f1) == (1.0, 0.5, pytest.approx(2 / 3))
    assert (fox.precision, fox.recall, fox.f1, fox.true, fox.predicted) == (0, 0, 0, 0, 0)
    assert c.macro_f1 == pytest.approx((cat.f1 + dog.f1 + owl.f1) / 3)  # there was no fox
    assert c.texts_per_second == 2.0


def test_log_loss_is_of_the_true_label_and_finite_at_probability_0():
    given_to_truth = [0.7, 0.3, 0.9, 0.3, 1.0, 0.6]
    assert card().log_loss == pytest.approx(-sum(map(log, given_to_truth)) / 6)
    worst = card(["fox"] * 6)
    assert 10 < worst.log_loss < 40 and worst.accuracy.value == 0


def test_calibration_bins_are_of_the_predicted_probability():
    c = card()
    assert len(c.bins) == BINS and sum(b.count for b in c.bins) == 6
    full = {round(b.high, 4): b for b in c.bins if b.count}
    assert {b: full[b].count for b in full} == {
        0.4: 1, 0.5333: 1, 0.6: 1, 0.7333: 1, 0.9333: 1, 1.0: 1,
    }  # fmt: skip
    gaps = [1 - 0.7, 0.5, 1 - 0.9, 0.4, 0.0, 1 - 0.6]
    assert c.calibration_error == pytest.approx(sum(gaps) / 6)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_calibration_follows_its_definition(predictions):
    probabilities, right = (np.array(column) for column in zip(*predictions, strict=True))
    bins = calibration(probabilities, right)
    expected = 0.0
    for number, b in enumerate(bins):
        inside = (probabilities > b.low) & (probabilities <= b.high)
        inside |= (probabilities == 0) & (number == 0)
        assert b.count == inside.sum()
        if b.count:
            assert b.low <= b.probability + 1e-12 and b.probability <= b.high + 1e-12
            assert b.accuracy == pytest.approx(right[inside].mean())
            gap = abs(right[inside].mean() - probabilities[inside].mean())
            expected += inside.mean() * gap
    assert calibration_error(bins) == pytest.approx(expected)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_contains_the_share_and_solves_its_equation(counts):
    successes, trials = counts
    share = wilson(successes, trials)
    p = successes / trials
    assert share.value == p
    assert 0 <= share.low <= p <= share.high <= 1 and share.low < share.high
    for bound in (share.low, share.high):  # |p - b| = z sqrt(b (1 - b) / n), which defines it
        distance = 1.959964 * sqrt(max(0.0, bound * (1 - bound)) / trials)
        assert abs(p - bound) == pytest.approx(distance, abs=1e-6)


def test_the_card_survives_json():
    content = card().to_json()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["kind"] == "classification"


def test_markdown_contains_every_score():
    text = markdown(card().sheet())
    low, high = card().accuracy.low, card().accuracy.high
    for part in (
        "| accuracy | 66.67% |", f"| {low:.2%} – {high:.2%} |", "macro F1", "log loss", "15 bins",
        "| cat | 66.67% | 100.00% | 80.00% | 2 | 3 |", "|  | predicted cat | predicted dog |",
        "| owl | 0 | 1 | 1 | 0 |", "| 0.93 – 1.00 | 1 | 1.000 | 1.000 |", "12ab",
    ):  # fmt: skip
        assert part in text, part
    assert "0.00 – 0.07" not in text  # an empty bin


def test_texts_are_classified_in_chunks_and_returned_in_order(monkeypatch):
    monkeypatch.setattr(examples, "CHUNK", 4)
    calls, ticks = [], []

    class ByLength:
        labels = ("even", "odd")

        def classify(self, texts, *, batch_tokens, truncate):
            calls.append((len(texts), batch_tokens, truncate))
            odd = [float(len(text) % 2) * 0.9 + 0.05 for text in texts]
            return [Classification("", 0.0, {"even": 1 - p, "odd": p}) for p in odd]

    texts = ["x" * (n * 7 % 11) for n in range(11)]
    predictions = classify(
        ByLength(), texts, batch_tokens=9, truncate=True, tick=lambda: ticks.append(1)
    )
    assert [predictions.labels[i] for i in predictions.best] == [
        ("even", "odd")[len(text) % 2] for text in texts
    ]
    assert calls == [(1, 9, True), (4, 9, True), (4, 9, True), (3, 9, True)]
    assert len(ticks) == len(examples.chunks_by_length(texts)) == 3 and predictions.seconds > 0


def test_as_many_labels_as_answers_are_asked_for():
    with pytest.raises(DataError, match="6 predictions"):
        card(TRUTH[:-1])
