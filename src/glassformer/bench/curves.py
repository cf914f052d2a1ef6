"""The log of a run as a curve: scores against updates, time and target tokens."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from glassformer.errors import DataError
from glassformer.train.log import Record, read

SCORE = "valid_"


@dataclass(frozen=True)
class Point:
    """A validation. Its seconds include earlier validations, not the time it took itself."""

    step: int
    seconds: float
    labels: int | None  # target tokens so far; None if the log has neither counts nor speeds
    scores: dict[str, float]

    @property
    def minutes(self) -> float:
        return self.seconds / 60

    def to_dict(self, *scores: str) -> dict[str, float | None]:
        """Return the point for JSON, with these scores."""
        return {
            "updates": self.step,
            "minutes": self.minutes,
            "target_tokens": self.labels,
            **{name: self.scores[name] for name in scores},
        }


@dataclass(frozen=True)
class Curve:
    points: list[Point]
    counted: bool  # whether the run counted target tokens; else they are computed from its speed


def read_curve(place: Path) -> Curve:
    """Return the validations of a run, given by its folder or its log.

    The steps of a log ascend: a run that resumes first drops the records after its checkpoint.
    """
    records = records_of(place)
    validations = [r for r in records if any(name.startswith(SCORE) for name in r)]
    at = partial(labels_at, *estimated_labels(records))
    points = [
        Point(step := r["step"], r["seconds"], r.get("labels", at(step)), _scores(r))
        for r in validations
    ]
    return Curve(points, all("labels" in record for record in validations))


def records_of(place: Path) -> list[Record]:
    """Return the records of a run's log."""
    path = place if place.is_file() else place / "log.jsonl"
    if not path.is_file():
        raise DataError(
            f"There is no log {path}.",
            "A run writes one from its first updates on.",
            "Name the folder of a run, its log.jsonl, or a RECIPE.toml to train.",
        )
    try:
        records = read(path)
        if all({"step", "seconds"} <= record.keys() for record in records):
            return records
    except (ValueError, AttributeError):  # no JSON, or no records in it
        pass
    raise DataError(
        f"{path} is not the log of a run.",
        "Each line of a log is a record in JSON with its step and seconds.",
        "Name the folder of a run, or the log.jsonl in it.",
    )


def _scores(record: Record) -> dict[str, float]:
    return {k.removeprefix(SCORE): v for k, v in record.items() if k.startswith(SCORE)}


def estimated_labels(records: list[Record]) -> tuple[list[int], list[float]]:
    """Return updates and the target tokens until each, computed from speed times time.

    Both include validations. After a resume, the time between the last record and the checkpoint
    is counted at the speed of the next record; it is less than `log_every` updates.
    """
    steps, labels, since = [0], [0.0], 0.0
    for record in records:
        if "labels_per_second" in record:
            steps.append(record["step"])
            added = record["labels_per_second"] * (record["seconds"] - since)
            labels.append(labels[-1] + added)
            since = record["seconds"]
    return steps, labels


def labels_at(steps: list[int], labels: list[float], step: int) -> int | None:
    """Return the target tokens until an update, interpolated, or extrapolated beyond the last."""
    if len(steps) < 2:
        return None
    slope = (labels[-1] - labels[-2]) / (steps[-1] - steps[-2])
    behind = max(0, step - steps[-1]) * slope
    return round(float(np.interp(step, steps, labels)) + behind)
