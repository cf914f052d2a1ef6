"""Tables and the figure of a finding."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from glassformer import picture
from glassformer.evaluate.card import Table
from glassformer.lab.experiment import Experiment, Results, Summary, Value
from glassformer.lab.finding import Finding

LABELS = {
    "claim": "Claim",
    "source": "Source",
    "varied": "Varied",
    "measured": "Measured",
    "rule": "Rule",
}


def tables(finding: Finding) -> list[Table]:
    """Return the evidence of the verdict, then a table per set of varied settings."""
    results = finding.results
    shown = finding.shown or tuple(results.quantities)
    names = dict.fromkeys(tuple(m.arm) for m in results.measurements if m.quantity in shown)
    found = [_table(results, varied, shown) for varied in names]
    evidence = [[name, value] for name, value in finding.verdict.evidence.items()]
    return [Table("", ["evidence", "value"], evidence, "lr"), *found] if evidence else found


def _table(results: Results, varied: tuple[str, ...], shown: Sequence[str]) -> Table:
    """Return a row per arm: its settings, then mean and 95% interval of each quantity."""
    chosen = Results(m for m in results.measurements if tuple(m.arm) == varied)
    quantities = [quantity for quantity in shown if quantity in chosen.quantities]
    rows = [
        [*map(_setting, arm.values()), *(_cell(chosen, q, arm) for q in quantities)]
        for arm in chosen.arms()
        if any(chosen.by_seed(q, **arm) for q in quantities)
    ]
    return Table("", [*varied, *quantities], rows, "l" * len(varied) + "r" * len(quantities))


def _setting(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(results: Results, quantity: str, arm: dict[str, Value]) -> str:
    summary = results.summary(quantity, **arm)
    return cell(summary) if summary.count else ""


def cell(summary: Summary) -> str:
    """Return "12.3 [11.9, 12.7]", with the number of failed runs if there are any."""
    if summary.failed == summary.count:
        return f"failed, {summary.failed} of {summary.count}"
    text = number(summary.mean)
    if isfinite(summary.low) and summary.low < summary.high:
        text += f" [{number(summary.low)}, {number(summary.high)}]"
    return text + f" ({summary.failed} of {summary.count} failed)" * bool(summary.failed)


def number(value: float) -> str:
    """Return four significant digits, with an exponent below 0.001 and from a million on."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def draw(experiment: Experiment, finding: Finding, path: Path) -> None:
    """Draw the figure of the experiment into a file."""
    figure = picture.new_figure(9, 4.2)
    experiment.draw(finding.results, figure)
    figure.suptitle(f"{experiment.title}: {finding.outcome}", fontsize=11)
    picture.save(figure, path)
