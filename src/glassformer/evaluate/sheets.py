"""The comparison of beams and the analysis of failures, laid out as a score card is."""

from glassformer.evaluate.beams import BeamComparison, Change
from glassformer.evaluate.card import Sheet, Table, facts
from glassformer.evaluate.failures import Failure, FailureReport


def beams_sheet(comparison: BeamComparison) -> Sheet:
    tables = [Table("beams", comparison.columns, comparison.rows)]
    changes = {"gained": comparison.gained, "lost": comparison.lost}
    tables += [_change(how, change) for how, found in changes.items() for change in found]
    title = f"Greedy against beam, {comparison.sentences:,} sentences"
    return Sheet(title, tables, comparison.signatures, comparison.notes)


def failures_sheet(report: FailureReport) -> Sheet:
    tables = [Table(title, *content) for title, content in report.tables().items() if content[1]]
    tables += [_failure(failure) for failure in report.worst]
    return Sheet(f"Failures in {report.sentences:,} sentences", tables)


def _change(how: str, change: Change) -> Table:
    return facts(
        f"{how} chrF {change.difference:+.1f}: sentence {change.sentence}",
        {
            "source": change.source,
            "reference": change.reference,
            "greedy": change.greedy,
            f"beam {', '.join(map(str, change.beams))}": change.said,
        },
    )


def _failure(failure: Failure) -> Table:
    reasons = (f"{name}: {', '.join(found)}" for name, found in failure.problems.items())
    rows = {
        "source": failure.source,
        "reference": failure.reference,
        "said": failure.said,
        "went wrong": "; ".join(reasons) or "none of the labels",
    }
    if (use := failure.attention) is not None:
        hardly = ", ".join(use.hardly_attended) or "no word"
        rows["attention"] = f"{use.end_share:.0%} on </s>; hardly on {hardly}"
    return facts(f"sentence {failure.sentence}: chrF {failure.chrf:.1f}", rows)
