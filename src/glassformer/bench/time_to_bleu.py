"""`bench time-to-bleu`: when a run first reached a BLEU, by time and by target tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.bench.curves import Curve, Point, read_curve
from glassformer.callable_module import make_callable
from glassformer.checkpoint import SETTINGS, find
from glassformer.config import RunSettings
from glassformer.errors import DataError
from glassformer.evaluate.card import Sheet, Table, as_text, facts, show
from glassformer.evaluate.evaluation import WIDTH
from glassformer.evaluate.html import sheet_html
from glassformer.machine import machine
from glassformer.picture import check, new_figure, save

UNKNOWN = "–"
NOTES = [
    "BLEU: of validation: greedy, cased, sacreBLEU's tokenisation.",
    "minutes: the training loop with updates, validations and checkpoints, without preparing the "
    "data and without the validation that gave the score. Updates that a killed run repeats count "
    "once.",
    "target tokens: subwords of the targets, end marks included.",
    "interpolated: where the line from the previous validation crosses the target; not measured.",
]
ESTIMATED = "≈: computed from the speeds in the log, which has no count."


@dataclass(frozen=True)
class Crossing:
    """The point where the line between two validations crosses the target; not measured."""

    seconds: float
    labels: int | None


@dataclass(frozen=True)
class Reached:
    first: Point  # validation at or above the target
    crossing: Crossing | None  # None where no validation came before


@dataclass(frozen=True)
class Timed:
    """A run by its given name, with its settings if there is a checkpoint."""

    name: str
    curve: Curve
    settings: RunSettings | None

    @property
    def best(self) -> Point:
        return max(self.curve.points, key=bleu)

    def tokens(self, labels: int | None) -> str:
        if labels is None:
            return UNKNOWN
        return f"{labels:,}" if self.curve.counted else f"≈ {labels:,}"


def bleu(point: Point) -> float:
    return point.scores["bleu"]


def timed(place: Path) -> Timed:
    """Return the validations of a run by BLEU."""
    curve = read_curve(place)
    points = [point for point in curve.points if "bleu" in point.scores]
    if not points:
        raise DataError(
            f"{place} has no BLEU scores.",
            "Its log has no validation with a valid_bleu: either none has come yet, or the run "
            "has another train.metric.",
            "Train a translator with train.metric=bleu.",
        )
    saved = find(place) / SETTINGS
    settings = RunSettings.from_toml(saved.read_bytes()) if saved.is_file() else None
    return Timed(str(place), Curve(points, curve.counted), settings)


def reached(points: Sequence[Point], target: float) -> Reached | None:
    """Return when BLEU was first at or above the target, if ever."""
    i = next((i for i, point in enumerate(points) if bleu(point) >= target), None)
    if i is None:
        return None
    return Reached(points[i], _crossing(points[i - 1], points[i], target) if i else None)


def _crossing(before: Point, after: Point, target: float) -> Crossing:
    share = (target - bleu(before)) / (bleu(after) - bleu(before))
    labels = None
    if before.labels is not None and after.labels is not None:
        labels = round(before.labels + share * (after.labels - before.labels))
    return Crossing(before.seconds + share * (after.seconds - before.seconds), labels)


@dataclass(frozen=True)
class TimeToBleu:
    """When runs reached a BLEU, by time and by target tokens, with all their validations."""

    runs: list[Timed]
    target: float
    command: str

    def sheet(self) -> Sheet:
        """Return the tables."""
        columns = ["BLEU", "updates", "minutes", "target tokens"]
        when = [row for run in self.runs for row in _when(run, self.target)]
        course = [
            [run.name, *_cells(run, point)] for run in self.runs for point in run.curve.points
        ]
        tables = [
            Table(f"Time to BLEU {self.target:g}", ["run", "", *columns], when, "llrrrr"),
            Table("Curves", ["run", *columns], course),
            facts("machine", this_machine()),
        ]
        estimates = [] if all(run.curve.counted for run in self.runs) else [ESTIMATED]
        title = "Validation BLEU against time and target tokens"
        return Sheet(title, tables, {"command": self.command}, NOTES + estimates)

    def to_json(self) -> dict[str, Any]:
        """Return the report with whole curves, ready for `json.dumps`."""
        return {
            "command": self.command,
            "target": self.target,
            "runs": [_run_content(run, self.target) for run in self.runs],
            "notes": self.sheet().notes,
            "machine": this_machine(),
        }

    def draw(self, path: str | Path) -> None:
        """Draw all runs against minutes and, if all have them, against target tokens."""
        path = Path(path)
        check(path)
        by_tokens = all(p.labels is not None for run in self.runs for p in run.curve.points)
        figure = new_figure(10 if by_tokens else 5.5, 4)
        panels = figure.subplots(1, 2 if by_tokens else 1, sharey=True, squeeze=False)[0]
        for run in self.runs:
            _draw_run(run, self.target, panels)
        for axes, label in zip(panels, ("minutes", "million target tokens"), strict=False):
            axes.axhline(self.target, color="#888888", lw=1, ls="--")
            axes.set_xlabel(label)
            axes.set_xlim(left=0)
            axes.grid(alpha=0.25)
        panels[0].set_ylabel("validation BLEU")
        panels[0].legend(fontsize=8, loc="lower right")
        title = f"BLEU {self.target:g}: circles mark the first validation that reached it"
        figure.suptitle(title, fontsize=10)
        save(figure, path)

    def __str__(self) -> str:
        return as_text(partial(show, self.sheet()), WIDTH)

    def _repr_html_(self) -> str:
        return sheet_html(self.sheet())


def _when(run: Timed, target: float) -> list[list[str]]:
    there, best = reached(run.curve.points, target), [run.name, "best", *_cells(run, run.best)]
    if there is None:
        return [[run.name, "not reached", *[UNKNOWN] * 4], best]
    first = [run.name, "first validation at or above", *_cells(run, there.first)]
    if (line := there.crossing) is None:
        return [first, best]
    interpolated = [f"{target:.2f}", UNKNOWN, _minutes(line.seconds), run.tokens(line.labels)]
    return [first, [run.name, "interpolated", *interpolated], best]


def _cells(run: Timed, point: Point) -> list[str]:
    cells = [f"{bleu(point):.2f}", f"{point.step:,}", _minutes(point.seconds)]
    return [*cells, run.tokens(point.labels)]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.2f}"


def this_machine() -> dict[str, str | int]:
    """Return the machine of this report, without threads, which are a setting of each run.

    Logs do not record the machine that a run was trained on.
    """
    return {name: value for name, value in machine().items() if name != "threads"}


def _run_content(run: Timed, target: float) -> dict[str, Any]:
    there = reached(run.curve.points, target)
    line = there.crossing if there else None
    crossing = {"minutes": line.seconds / 60, "target_tokens": line.labels} if line else None
    return {
        "run": run.name,
        "first_at_or_above": there.first.to_dict("bleu") if there else None,
        "interpolated": crossing,
        "best": run.best.to_dict("bleu"),
        "target_tokens_are": "counted" if run.curve.counted else "computed from the speed",
        "curve": [point.to_dict("bleu") for point in run.curve.points],
        "settings": run.settings.model_dump(exclude_none=True) if run.settings else None,
    }


def _draw_run(run: Timed, target: float, panels: Sequence[Any]) -> None:
    points, there = run.curve.points, reached(run.curve.points, target)
    ways = [[p.minutes for p in points], [(p.labels or 0) / 1e6 for p in points]]
    for axes, way in zip(panels, ways[: len(panels)], strict=True):
        (line,) = axes.plot(way, [bleu(p) for p in points], ".-", label=run.name)
        if there:
            x = way[points.index(there.first)]
            axes.plot(x, bleu(there.first), "o", color=line.get_color(), ms=9, mfc="none")


make_callable(__name__, "glassformer.api.bench", "time_to_bleu")
