"""What the log of a run tells of its course: scores against updates, time and target tokens."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glassformer.errors import DataError
from glassformer.train.log import Record, read

SCORE = "valid_"


@dataclass(frozen=True)
class Point:
    """A validation. Those before it are in its seconds; itself it is not, only the updates."""

    step: int
    seconds: float
    labels: int | None  # target tokens until then; None where the log lets nobody tell
    scores: dict[str, float]

    @property
    def minutes(self) -> float:
        return self.seconds / 60

    def to_dict(self, *scores: str) -> dict[str, float | None]:
        """For JSON, with those of the scores that are asked for."""
        return {
            "updates": self.step,
            "minutes": self.minutes,
            "target_tokens": self.labels,
            **{name: self.scores[name] for name in scores},
        }


@dataclass(frozen=True)
class Curve:
    points: list[Point]
    counted: bool  # target tokens are as the run counted them, not worked out from its speed


def read_curve(place: Path) -> Curve:
    """The validations of a run, named by its folder or by its log.

    There is one course in a log: a run that is resumed first drops what came after its checkpoint.
    """
    records = records_of(place)
    validations = [r for r in records if any(name.startswith(SCORE) for name in r)]
    steps, labels = worked_out(records)
    points = [
        Point(r["step"], r["seconds"], r.get("labels", at(r["step"], steps, labels)), _scores(r))
        for r in validations
    ]
    return Curve(points, all("labels" in record for record in validations))


def records_of(place: Path) -> list[Record]:
    """Every line of a run's log."""
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


def worked_out(records: list[Record]) -> tuple[list[int], list[float]]:
    """Updates, and the target tokens until each: speeds times the time that they held for.

    Both include the validations in between. Only the time of a resumed run from its last record to
    the checkpoint that it went on from is not in the speed that comes next, and counts as if it
    were: fewer updates than `log_every`, and a validation if one fell among them.
    """
    steps, labels, since = [0], [0.0], 0.0
    for record in records:
        if "labels_per_second" in record:
            steps.append(record["step"])
            added = record["labels_per_second"] * (record["seconds"] - since)
            labels.append(labels[-1] + added)
            since = record["seconds"]
    return steps, labels


def at(step: int, steps: list[int], labels: list[float]) -> int | None:
    """Target tokens until an update between two known ones, or behind the last of them."""
    if len(steps) < 2:
        return None
    slope = (labels[-1] - labels[-2]) / (steps[-1] - steps[-2])
    behind = max(0, step - steps[-1]) * slope
    return round(float(np.interp(step, steps, labels)) + behind)
