"""The score card of a classifier: accuracy, F1, confusion, calibration and speed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import NormalDist
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.evaluate.card import Circumstances, Sheet, Table
from glassformer.evaluate.examples import check_lengths, chunks_by_length
from glassformer.machine import peak_memory
from glassformer.pipeline import Classification, Classifier

BINS = 15  # of equal width, as is customary for the expected calibration error
SMALLEST = float(np.finfo(np.float64).eps)  # probability: log loss clips at it

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Predictions:
    """The output of a classifier with its cost in seconds and bytes, tokenisation included."""

    labels: list[str]
    probabilities: Floats  # (texts, labels)
    seconds: float
    peak_memory: int | None
    cut: int = 0  # texts whose end was not read

    @property
    def best(self) -> Counts:
        return self.probabilities.argmax(axis=1)


@dataclass(frozen=True)
class Share:
    """A proportion with its 95% interval (Wilson)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ClassScore:
    """The scores of one label; 0 where the denominator is 0."""

    label: str
    precision: float
    recall: float
    f1: float
    true: int  # texts with this label
    predicted: int  # texts that were given this label


@dataclass(frozen=True)
class Bin:
    """Predictions with a probability above `low` and up to `high`."""

    low: float
    high: float
    count: int
    probability: float  # their mean
    accuracy: float


@dataclass(frozen=True)
class ClassificationCard:
    texts: int
    accuracy: Share
    macro_f1: float  # mean over the labels that occur or are predicted
    classes: list[ClassScore]
    confusion: list[list[int]]  # a row for each true label, a column for each predicted one
    calibration_error: float  # mean |accuracy - probability| of the bins, weighted by count
    bins: list[Bin]
    log_loss: float
    texts_per_second: float
    circumstances: Circumstances

    def to_json(self) -> dict[str, Any]:
        return {"kind": "classification", **asdict(self)}

    def sheet(self) -> Sheet:
        tables = [
            Table("measured", ["", ""], self._measured()),
            Table(
                "labels",
                ["", "precision", "recall", "F1", "true", "predicted"],
                [_class_row(score) for score in self.classes],
            ),
            Table(
                "confusion (a row for each true label)",
                ["", *(f"predicted {score.label}" for score in self.classes)],
                [
                    [score.label, *(f"{count:,}" for count in row)]
                    for score, row in zip(self.classes, self.confusion, strict=True)
                ],
            ),
            Table(
                "calibration (empty bins left out)",
                ["probability", "texts", "mean probability", "accuracy"],
                [_bin_row(b) for b in self.bins if b.count],
            ),
            *self.circumstances.tables(),
        ]
        title = f"Classifications of {self.circumstances.model}"
        return Sheet(title, tables, self.circumstances.quoted())

    def _measured(self) -> list[list[str]]:
        accuracy = self.accuracy
        return [
            ["texts", f"{self.texts:,}"],
            ["accuracy", f"{accuracy.value:.2%}"],
            ["95% interval (Wilson)", f"{accuracy.low:.2%} – {accuracy.high:.2%}"],
            ["macro F1", f"{self.macro_f1:.2%}"],
            ["log loss", f"{self.log_loss:.4f}"],
            [f"expected calibration error, {BINS} bins", f"{self.calibration_error:.2%}"],
            ["texts/s", f"{self.texts_per_second:,.1f}"],
            *self.circumstances.cost(),
        ]


def classify(
    classifier: Classifier,
    texts: Sequence[str],
    *,
    batch_tokens: int = 4_096,
    truncate: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> Predictions:
    """Classify all texts; `tick` is called after each of `chunks_by_length`."""

    def run(texts: list[str]) -> list[Classification]:
        return classifier.classify(texts, batch_tokens=batch_tokens, truncate=truncate)

    run(list(texts[:1]))  # warm up
    labels = list(classifier.labels)
    probabilities = np.zeros((len(texts), len(labels)))
    start, cut = perf_counter(), 0
    for chunk in chunks_by_length(texts):
        for i, answer in zip(chunk, run([texts[i] for i in chunk]), strict=True):
            cut += answer.cut > 0
            probabilities[i] = [answer.probabilities[label] for label in labels]
        tick()
    return Predictions(labels, probabilities, perf_counter() - start, peak_memory(), cut)


def classification_card(
    predictions: Predictions, truth: Sequence[str], circumstances: Circumstances
) -> ClassificationCard:
    """Return the card; `truth` are the true labels, all among those of the classifier."""
    predicted = predictions.best
    check_lengths(predictions=predicted.tolist(), labels=truth)
    true = np.array([predictions.labels.index(label) for label in truth])
    right = predicted == true
    confusion = confusion_matrix(true, predicted, len(predictions.labels))
    classes = class_scores(predictions.labels, confusion)
    bins = calibration(predictions.probabilities.max(axis=1), right)
    of_truth = predictions.probabilities[np.arange(len(true)), true]
    return ClassificationCard(
        texts=len(truth),
        accuracy=wilson(int(right.sum()), len(truth)),
        macro_f1=float(np.mean([score.f1 for score in classes if score.true or score.predicted])),
        classes=classes,
        confusion=confusion.tolist(),
        calibration_error=calibration_error(bins),
        bins=bins,
        log_loss=float(-np.log(of_truth.clip(SMALLEST)).mean()),
        texts_per_second=len(truth) / predictions.seconds,
        circumstances=circumstances,
    )


def wilson(successes: int, trials: int) -> Share:
    """Return Wilson's score interval, which stays within 0 and 1 and is never empty."""
    z = NormalDist().inv_cdf(0.975)
    p, n = successes / trials, trials
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    # for p = 0 and p = 1 an end equals p; rounding must not move it past p
    return Share(p, max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half)))


def confusion_matrix(true: Counts, predicted: Counts, labels: int) -> Counts:
    counts = np.zeros((labels, labels), dtype=np.int64)
    np.add.at(counts, (true, predicted), 1)
    return counts


def class_scores(labels: Sequence[str], confusion: Counts) -> list[ClassScore]:
    true, predicted, right = confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal()
    precision, recall = right / predicted.clip(1), right / true.clip(1)
    f1 = 2 * right / (true + predicted).clip(1)  # = 2PR / (P + R), and 0 where both are 0
    columns = (precision.tolist(), recall.tolist(), f1.tolist(), true.tolist(), predicted.tolist())
    return [ClassScore(*row) for row in zip(labels, *columns, strict=True)]


def calibration(probabilities: Floats, right: NDArray[np.bool_]) -> list[Bin]:
    """Return the predictions by probability, with the accuracy of each bin."""
    edges = np.linspace(0, 1, BINS + 1)
    places = np.digitize(probabilities, edges[1:-1], right=True)
    counts = np.bincount(places, minlength=BINS)
    means = np.bincount(places, probabilities, BINS) / counts.clip(1)
    accuracies = np.bincount(places, right, BINS) / counts.clip(1)
    columns = (edges[:-1], edges[1:], counts, means, accuracies)
    return [Bin(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def calibration_error(bins: Sequence[Bin]) -> float:
    total = sum(b.count for b in bins)
    return sum(b.count / total * abs(b.accuracy - b.probability) for b in bins)


def _class_row(score: ClassScore) -> list[str]:
    shares = (score.precision, score.recall, score.f1)
    counts = (score.true, score.predicted)
    return [score.label, *(f"{s:.2%}" for s in shares), *(f"{c:,}" for c in counts)]


def _bin_row(b: Bin) -> list[str]:
    return [
        f"{b.low:.2f} – {b.high:.2f}", f"{b.count:,}", f"{b.probability:.3f}", f"{b.accuracy:.3f}",
    ]  # fmt: skip
