"""Ablation: a recipe trained again with one setting changed at a time, over several seeds.

Every variant gets the budget of the recipe. It is compared with the unchanged recipe, the baseline,
seed by seed: the effect of a lucky seed on both cancels out.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import Any

from glassformer.bench.curves import Curve, Point, read_curve
from glassformer.bench.trials import claim, conclude, error_of, is_over
from glassformer.bench.variants import BASELINE, Trial, describe_baseline
from glassformer.config import RunSettings
from glassformer.errors import GlassformerError, TrainingError
from glassformer.evaluate.card import Sheet, Table, facts
from glassformer.machine import machine
from glassformer.measure import half_width
from glassformer.train.early_stopping import higher_is_better

UNKNOWN = "–"

Train = Callable[[RunSettings, Path, bool], None]  # settings, folder, whether to resume


@dataclass(frozen=True)
class Outcome:
    """A finished trial: its validations, or the error that ended it."""

    trial: Trial
    error: str | None
    curve: Curve | None

    @property
    def end(self) -> Point:
        assert self.curve is not None, "a failed trial has no result"
        return self.curve.points[-1]

    def scores(self, metric: str) -> dict[str, float]:
        assert self.curve is not None, "a failed trial has no result"
        values = [point.scores[metric] for point in self.curve.points]
        best = max if higher_is_better(metric) else min
        return {"best": best(values), "last": values[-1]}

    def to_dict(self, metric: str) -> dict[str, Any]:
        about = {"seed": self.trial.seed, "folder": str(self.trial.folder), "error": self.error}
        if self.error is not None or self.curve is None:
            return about
        curve = [point.to_dict(metric) for point in self.curve.points]
        counted = "counted" if self.curve.counted else "computed from the speed"
        end = self.scores(metric) | self.end.to_dict()
        return about | end | {"target_tokens_are": counted, "curve": curve}


def run_trial(trial: Trial, train: Train) -> Outcome:
    """Train a trial that is not finished.

    A run that diverged would diverge again, and counts as finished. After any other error, such as
    a full disk, the next call tries again.
    """
    try:
        resume = claim(trial.folder, trial.settings)
        if not is_over(trial.folder):
            train(trial.settings, trial.folder, resume)
            conclude(trial.folder, None)
        if error := error_of(trial.folder):
            return Outcome(trial, error, None)
        curve = read_curve(trial.folder)
        check_finite(curve, trial.settings.train.metric)
    except TrainingError as problem:
        conclude(trial.folder, problem.what)
        return Outcome(trial, problem.what, None)
    except GlassformerError as problem:
        return Outcome(trial, problem.what, None)
    return Outcome(trial, None, curve)


def check_finite(curve: Curve, metric: str) -> None:
    """Refuse a validation score that is not finite; training stops on bad weights only."""
    for point in curve.points:
        if not isfinite(point.scores[metric]):
            raise TrainingError(
                f"The {metric} of validation is {point.scores[metric]} after {point.step:,} "
                "updates.",
                "The run has diverged.",
                "Lower the learning rate, or warm up for longer.",
            )


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with half the width of its 95% interval, where there are two or more."""

    mean: float
    half_width: float | None
    values: list[float]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate | None":
        return cls(mean(values), half_width(values), list(values)) if values else None

    def text(self, form: str) -> str:
        half = "" if self.half_width is None else f" ± {self.half_width:{form.lstrip('+')}}"
        return f"{self.mean:{form}}{half}"


@dataclass(frozen=True)
class Row:
    """A variant: its scores over seeds, and the differences to the baseline with these seeds."""

    name: str
    outcomes: list[Outcome]
    best: Estimate | None
    last: Estimate | None
    best_difference: Estimate | None
    last_difference: Estimate | None

    @property
    def finished(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.error is None]

    @property
    def errors(self) -> list[str]:
        seeds: dict[str, list[str]] = {}
        for outcome in self.outcomes:
            if outcome.error is not None:
                seeds.setdefault(outcome.error, []).append(str(outcome.trial.seed))
        return [f"seed {', '.join(some)}: {error}" for error, some in seeds.items()]


def rows(outcomes: Sequence[Outcome], metric: str) -> list[Row]:
    """Return a row for each variant in the order given, the baseline first."""
    by_name: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.trial.variant.name, []).append(outcome)
    baseline = _by_seed(by_name.get(BASELINE, []), metric)
    return [_row(name, some, baseline, metric) for name, some in by_name.items()]


def _by_seed(outcomes: Sequence[Outcome], metric: str) -> dict[int, dict[str, float]]:
    return {o.trial.seed: o.scores(metric) for o in outcomes if o.error is None}


def _row(
    name: str, outcomes: list[Outcome], baseline: dict[int, dict[str, float]], metric: str
) -> Row:
    own = _by_seed(outcomes, metric)
    paired = [seed for seed in own if seed in baseline and name != BASELINE]
    means = [Estimate.of([s[which] for s in own.values()]) for which in ("best", "last")]
    differences = [
        Estimate.of([own[seed][which] - baseline[seed][which] for seed in paired])
        for which in ("best", "last")
    ]
    return Row(name, outcomes, *means, *differences)


@dataclass(frozen=True)
class Report:
    recipe: str
    command: str
    base: RunSettings
    varied: list[str]
    rows: list[Row]
    grid: bool = False

    @property
    def machine(self) -> dict[str, str | int]:
        return machine() | {"threads": self.base.train.threads}

    @property
    def all_failed(self) -> bool:
        return not any(row.finished for row in self.rows)

    def sheet(self) -> Sheet:
        how = "every combination" if self.grid else "one setting changed at a time"
        return Sheet(f"{self.recipe}: {how}", self._tables(), {"command": self.command}, self.notes)

    def _tables(self) -> list[Table]:
        metric, labels = self.base.train.metric, self._labels
        columns = ["variant", "seeds", f"best {metric}", "Δ", f"last {metric}", "Δ"]
        columns += ["updates", labels, "minutes"]
        table = Table("Variants", columns, [self._cells(row) for row in self.rows])
        failed = [[row.name, "; ".join(row.errors)] for row in self.rows if row.errors]
        errors = [Table("Errors", ["variant", "reason"], failed, "ll")] if failed else []
        return [table, *errors, facts("machine", self.machine)]

    @property
    def _labels(self) -> str:
        return "labels" if self.base.model.kind in ("classifier", "tagger") else "target tokens"

    def _cells(self, row: Row) -> list[str]:
        form = ".4f" if self.base.train.metric == "loss" else ".2f"
        scores = [row.best, row.best_difference, row.last, row.last_difference]
        forms = [form, f"+{form}"] * 2
        cells = [s.text(f) if s else UNKNOWN for s, f in zip(scores, forms, strict=True)]
        name = describe_baseline(self.base, self.varied) if row.name == BASELINE else row.name
        seeds = f"{len(row.finished)} of {len(row.outcomes)}" if row.errors else len(row.outcomes)
        return [name, str(seeds), *cells, *_cost(row)]

    @property
    def notes(self) -> list[str]:
        s = self.base.train
        more = "more" if higher_is_better(s.metric) else "less"
        limit = f" or {s.max_minutes:g} minutes" if s.max_minutes is not None else ""
        notes = [
            f"{s.metric}: of validation, {more} is better. best: of all validations of a run, "
            "which favours noisy runs; last: of the final validation.",
            "±: half the 95% interval of the mean over seeds, by Student's t; without the variance "
            "of other data, and not corrected for the number of variants.",
            "Δ: difference to the baseline, paired by seed, with its interval.",
            f"Each run had at most {s.max_steps:,} updates{limit}. Updates, {self._labels} and "
            "minutes are means over seeds; minutes count validations, all but the last.",
        ]
        curves = [o.curve for row in self.rows for o in row.finished]
        if not all(curve is None or curve.counted for curve in curves):
            notes.append(f"{self._labels}: computed from the speeds in the logs.")
        return notes

    def to_json(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "recipe": self.recipe,
            "metric": self.base.train.metric,
            "grid": self.grid,
            "varied": self.varied,
            "settings": self.base.model_dump(exclude_none=True),
            "rows": [self._row_content(row) for row in self.rows],
            "notes": self.notes,
            "machine": self.machine,
        }

    def _row_content(self, row: Row) -> dict[str, Any]:
        estimates = ("best", "last", "best_difference", "last_difference")
        values = {name: getattr(row, name) for name in estimates}
        return {
            "variant": row.name,
            **{name: asdict(found) if found else None for name, found in values.items()},
            "runs": [outcome.to_dict(self.base.train.metric) for outcome in row.outcomes],
        }


def _cost(row: Row) -> list[str]:
    ends = [outcome.end for outcome in row.finished]
    if not ends:
        return [UNKNOWN] * 3
    labels = [end.labels for end in ends if end.labels is not None]
    tokens = f"{mean(labels):,.0f}" if len(labels) == len(ends) else UNKNOWN
    minutes = f"{mean(end.minutes for end in ends):.2f}"
    return [f"{mean(end.step for end in ends):,.0f}", tokens, minutes]
