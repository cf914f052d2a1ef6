"""The score card of a classifier: how often it is right, about what, and whether it knows it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import NormalDist
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.evaluate.beams import check_lengths
from glassformer.evaluate.card import Circumstances, Sheet, Table
from glassformer.evaluate.examples import turns
from glassformer.machine import peak_memory
from glassformer.pipeline import Classification, Classifier

BINS = 15  # of the calibration, all as wide
LEAST = float(np.finfo(np.float64).eps)  # a probability that log loss counts for 0

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """What a classifier said, and what that took, text in and label out."""

    labels: list[str]
    probabilities: Floats  # (texts, labels)
    seconds: float
    peak_memory: int | None

    @property
    def best(self) -> Counts:
        return self.probabilities.argmax(axis=1)


@dataclass(frozen=True)
class Share:
    """A share with its 95% interval (Wilson)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ClassScore:
    """One label. What nothing can be divided by is 0."""

    label: str
    precision: float
    recall: float
    f1: float
    true: int  # texts that have it
    said: int  # texts that were given it


@dataclass(frozen=True)
class Bin:
    """Answers given with a probability above `low` and up to `high`."""

    low: float
    high: float
    count: int
    probability: float  # their mean
    accuracy: float


@dataclass(frozen=True)
class ClassificationCard:
    texts: int
    accuracy: Share
    macro_f1: float  # mean over the labels that are true or were said of any text
    classes: list[ClassScore]
    confusion: list[list[int]]  # a row for each true label, a column for each that was said
    calibration_error: float  # expected: the bins' |accuracy - probability|, by their counts
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
                ["", "precision", "recall", "F1", "true", "said"],
                [_class_row(score) for score in self.classes],
            ),
            Table(
                "confusion (a row for each true label)",
                ["", *(f"said {score.label}" for score in self.classes)],
                [
                    [score.label, *(f"{count:,}" for count in row)]
                    for score, row in zip(self.classes, self.confusion, strict=True)
                ],
            ),
            Table(
                "calibration (bins without answers left out)",
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
) -> Answers:
    """Classify all, in `turns`, and tick after each."""

    def ask(texts: list[str]) -> list[Classification]:
        return classifier.classify(texts, batch_tokens=batch_tokens, truncate=truncate)

    ask(list(texts[:1]))  # what is made once is made now
    labels = list(classifier.labels)
    probabilities = np.zeros((len(texts), len(labels)))
    start = perf_counter()
    for turn in turns(texts):
        for i, answer in zip(turn, ask([texts[i] for i in turn]), strict=True):
            probabilities[i] = [answer.probabilities[label] for label in labels]
        tick()
    return Answers(labels, probabilities, perf_counter() - start, peak_memory())


def classification_card(
    answers: Answers, truth: Sequence[str], circumstances: Circumstances
) -> ClassificationCard:
    """`truth` are the right labels, all of them among those of the classifier."""
    said = answers.best
    check_lengths(answers=[answers.labels[i] for i in said], labels=truth)
    true = np.array([answers.labels.index(label) for label in truth])
    right = said == true
    confusion = confusion_matrix(true, said, len(answers.labels))
    classes = class_scores(answers.labels, confusion)
    bins = calibration(answers.probabilities.max(axis=1), right)
    given = answers.probabilities[np.arange(len(true)), true]
    return ClassificationCard(
        texts=len(truth),
        accuracy=wilson(int(right.sum()), len(truth)),
        macro_f1=float(np.mean([score.f1 for score in classes if score.true or score.said])),
        classes=classes,
        confusion=confusion.tolist(),
        calibration_error=calibration_error(bins),
        bins=bins,
        log_loss=float(-np.log(given.clip(LEAST)).mean()),
        texts_per_second=len(truth) / answers.seconds,
        circumstances=circumstances,
    )


def wilson(successes: int, trials: int) -> Share:
    """Wilson's score interval: unlike the usual one it stays within 0 and 1, and is never empty."""
    z = NormalDist().inv_cdf(0.975)
    p, n = successes / trials, trials
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    # at the ends they meet p, which rounding must not move them past
    return Share(p, max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half)))


def confusion_matrix(true: Counts, said: Counts, labels: int) -> Counts:
    counts = np.zeros((labels, labels), dtype=np.int64)
    np.add.at(counts, (true, said), 1)
    return counts


def class_scores(labels: Sequence[str], confusion: Counts) -> list[ClassScore]:
    true, said, right = confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal()
    precision, recall = right / said.clip(1), right / true.clip(1)
    f1 = 2 * right / (true + said).clip(1)  # = 2PR / (P + R), and 0 where that has no value
    columns = (precision.tolist(), recall.tolist(), f1.tolist(), true.tolist(), said.tolist())
    return [ClassScore(*row) for row in zip(labels, *columns, strict=True)]


def calibration(probabilities: Floats, right: NDArray[np.bool_]) -> list[Bin]:
    """Answers by the probability they were given, and how many of them were right."""
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
    counts = (score.true, score.said)
    return [score.label, *(f"{s:.2%}" for s in shares), *(f"{c:,}" for c in counts)]


def _bin_row(b: Bin) -> list[str]:
    return [
        f"{b.low:.2f} – {b.high:.2f}", f"{b.count:,}", f"{b.probability:.3f}", f"{b.accuracy:.3f}",
    ]  # fmt: skip
