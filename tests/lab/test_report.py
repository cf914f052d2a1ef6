"""Tables of means and intervals, and pictures that depend on nothing but the numbers."""

from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from glassformer.lab.drawing import bars, line
from glassformer.lab.experiment import Experiment, Results, Summary
from glassformer.lab.report import cell, draw, number, tables
from glassformer.picture import new_figure
from lab.made_up import runs
from lab.test_finding import EXAMPLE, found


def test_a_table_has_a_row_per_arm_and_a_column_per_quantity() -> None:
    measurements = [
        *runs("loss", {"kind": "a", "size": 1}, [1.0, 2.0]),
        *runs("loss", {"kind": "a", "size": 20}, [2.0, 2.0]),
        *runs("steps", {"kind": "a", "size": 20}, [inf, inf]),
        *runs("hidden", {"kind": "a", "size": 20}, [1.0, 1.0]),
        *runs("refused", {"given": "x"}, [1.0]),
    ]
    finding = replace(found(), results=Results(measurements), shown=("loss", "steps", "refused"))
    first, second = tables(finding)
    assert first.columns == ["kind", "size", "loss", "steps"] and first.varied == 2
    assert first.rows == [["a", "1", "1.5 [-4.853, 7.853]", ""], ["a", "20", "2", "failed, 2 of 2"]]
    assert (second.columns, second.rows) == (["given", "refused"], [["x", "1"]])


def test_arms_of_which_nothing_is_shown_have_no_row() -> None:
    measurements = [*runs("loss", {"layer": 1}, [1.0]), *runs("norm", {"layer": 2}, [1.0])]
    (table,) = tables(replace(found(), results=Results(measurements), shown=("loss",)))
    assert table.rows == [["1", "1"]]


def test_failures_are_told_in_the_cell() -> None:
    assert cell(Summary.of([2.0, 2.0, nan])) == "2 (1 of 3 failed)"
    assert cell(Summary.of([1.0])) == "1"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (99.123, "99.12"), (1234.5, "1234"), (0.00012, "1.20e-04"), (-2.5e7, "-2.50e+07")],
)
def test_numbers_keep_the_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


def drawn(results: Results, figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    line(left, results, "steps", "size", "a label")
    bars(right, results, "steps", "kind")


def test_a_picture_is_the_same_whenever_the_numbers_are(tmp_path: Path) -> None:
    experiment: Experiment = replace(EXAMPLE, draw=drawn)
    for name in ("one", "two"):
        draw(experiment, found(), tmp_path / "new" / f"{name}.svg")
    one, two = ((tmp_path / "new" / f"{name}.svg").read_bytes() for name in ("one", "two"))
    assert one == two and b"</svg>" in one


def test_lines_go_from_the_least_to_the_most() -> None:
    """Whatever was measured first."""
    results = Results([*runs("cost", {"n": 512}, [3.0]), *runs("cost", {"n": 64}, [1.0])])
    axes = new_figure(4, 3).subplots()
    line(axes, results, "cost", "n")
    x, y = axes.containers[0].lines[0].get_data()
    assert x.tolist() == [64, 512] and y.tolist() == [1.0, 3.0]


def test_lines_show_means_and_where_most_runs_failed() -> None:
    results = Results(
        [
            *runs("steps", {"size": 1}, [1.0, 3.0]),
            *runs("steps", {"size": 2}, [inf, inf]),
            *runs("steps", {"size": 3}, [5.0]),
        ]
    )
    axes = new_figure(4, 3).subplots()
    line(axes, results, "steps", "size")
    x, y = axes.containers[0].lines[0].get_data()
    assert x.tolist() == [1, 2, 3]
    assert y[0] == 2.0 and y[1] != y[1] and y[2] == 5.0
    crosses = axes.lines[-1]
    assert crosses.get_xdata().tolist() == [2] and crosses.get_marker() == "x"
