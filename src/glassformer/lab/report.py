"""What a finding looks like: its tables and its picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from glassformer import picture
from glassformer.lab.experiment import Experiment, Results, Summary, Value
from glassformer.lab.finding import Finding

LABELS = {
    "claim": "Claim",
    "source": "From",
    "varied": "Varied",
    "measured": "Measured",
    "rule": "Rule",
}


@dataclass(frozen=True)
class Table:
    """A row per arm: what was varied, then the mean and 95% interval of each quantity."""

    columns: list[str]
    rows: list[list[str]]
    varied: int  # how many of the columns tell the arm


def tables(finding: Finding) -> list[Table]:
    """One for all arms in which the same things were varied."""
    results = finding.results
    shown = finding.shown or tuple(results.quantities)
    kinds = dict.fromkeys(tuple(m.arm) for m in results.measurements if m.quantity in shown)
    return [_table(results, kind, shown) for kind in kinds]


def _table(results: Results, kind: tuple[str, ...], shown: Sequence[str]) -> Table:
    of_kind = Results(m for m in results.measurements if tuple(m.arm) == kind)
    quantities = [quantity for quantity in shown if quantity in of_kind.quantities]
    rows = [
        [*map(_word, arm.values()), *(_cell(of_kind, q, arm) for q in quantities)]
        for arm in of_kind.arms()
        if any(of_kind.by_seed(q, **arm) for q in quantities)
    ]
    return Table([*kind, *quantities], rows, len(kind))


def _word(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(results: Results, quantity: str, arm: dict[str, Value]) -> str:
    summary = results.summary(quantity, **arm)
    return cell(summary) if summary.count else ""


def cell(summary: Summary) -> str:
    """12.3 [11.9, 12.7], and how many runs came to nothing."""
    if summary.failed == summary.count:
        return f"failed, {summary.failed} of {summary.count}"
    text = number(summary.mean)
    if isfinite(summary.low) and summary.low < summary.high:
        text += f" [{number(summary.low)}, {number(summary.high)}]"
    return text + f" ({summary.failed} of {summary.count} failed)" * bool(summary.failed)


def number(value: float) -> str:
    """To four digits that count; percentages and counts without an exponent."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def draw(experiment: Experiment, finding: Finding, path: Path) -> None:
    """The experiment's own drawing."""
    figure = picture.new_figure(9, 4.2)
    experiment.draw(finding.results, figure)
    figure.suptitle(f"{experiment.title}: {finding.told}", fontsize=11)
    picture.save(figure, path)
