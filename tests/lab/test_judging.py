"""On which side of a bound an interval lies."""

from math import inf

from glassformer.lab.experiment import Summary
from glassformer.lab.judging import above, below


def test_an_interval_that_holds_the_bound_is_on_neither_side() -> None:
    summary = Summary.of([9.0, 10.0, 11.0])
    assert above(summary, 5) and not below(summary, 5)
    assert below(summary, 15) and not above(summary, 15)
    assert not above(summary, 9) and not below(summary, 9)


def test_what_failed_or_was_run_once_is_on_no_side() -> None:
    for summary in (Summary.of([9.0, 9.1, 9.2, inf]), Summary.of([9.0]), Summary.of([])):
        assert not above(summary, 0) and not below(summary, 100)
