"""Tables of means with intervals, and reproducible figures."""

from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from glassformer.lab.drawing import bars, line, log2_axis
from glassformer.lab.experiment import Experiment, Results, Summary, Verdict
from glassformer.lab.report import cell, draw, number, tables
from glassformer.picture import new_figure
from lab.fakes import runs
from lab.test_finding import EXAMPLE, found


def test_a_table_has_a_row_per_arm_and_a_column_per_quantity() -> None:
    measurements = [
        *runs("loss", {"kind": "a", "size": 1}, [1.0, 2.0]),
        *runs("loss", {"kind": "a", "size": 20}, [2.0, 2.0]),
        *runs("steps", {"kind": "a", "size": 20}, [inf, inf]),
        *runs("not shown", {"kind": "a", "size": 20}, [1.0, 1.0]),
        *runs("refused", {"given": "x"}, [1.0]),
    ]
    finding = replace(found(), results=Results(measurements), shown=("loss", "steps", "refused"))
    first, second = tables(finding)
    assert first.columns == ["kind", "size", "loss", "steps"] and first.align == "llrr"
    assert first.rows == [["a", "1", "1.5 [0, 7.853]", ""], ["a", "20", "2", "failed, 2 of 2"]]
    assert (second.columns, second.rows) == (["given", "refused"], [["x", "1"]])


def test_arms_without_a_shown_quantity_have_no_row() -> None:
    measurements = [*runs("loss", {"layer": 1}, [1.0]), *runs("norm", {"layer": 2}, [1.0])]
    (table,) = tables(replace(found(), results=Results(measurements), shown=("loss",)))
    assert table.rows == [["1", "1"]]


def test_a_cell_counts_failed_runs() -> None:
    assert cell(Summary.of([2.0, 2.0, nan])) == "2 (1 of 3 failed)"
    assert cell(Summary.of([1.0])) == "1"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (99.123, "99.12"), (1234.5, "1234"), (0.00012, "1.20e-04"), (-2.5e7, "-2.50e+07")],
)
def test_numbers_have_four_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def drawn(results: Results, figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    line(left, results, "steps", "size", "a label")
    bars(right, results, "steps", "kind")


def test_equal_numbers_give_equal_figure_files(tmp_path: Path) -> None:
    experiment: Experiment = replace(EXAMPLE, draw=drawn)
    for name in ("one", "two"):
        draw(experiment, found(), tmp_path / "new" / f"{name}.svg")
    one, two = ((tmp_path / "new" / f"{name}.svg").read_bytes() for name in ("one", "two"))
    assert one == two and b"</svg>" in one


def test_lines_are_sorted_by_the_varied_setting() -> None:
    results = Results([*runs("cost", {"n": 512}, [3.0]), *runs("cost", {"n": 64}, [1.0])])
    axes = new_figure(4, 3).subplots()
    line(axes, results, "cost", "n")
    x, y = axes.containers[0].lines[0].get_data()
    assert x.tolist() == [64, 512] and y.tolist() == [1.0, 3.0]


def test_lines_show_means_and_mark_failed_settings() -> None:
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


def test_error_bars_are_the_bounded_interval() -> None:
    axes = new_figure(4, 3).subplots()
    line(axes, Results(runs("accuracy, %", {"n": 1}, [1.0, 99.0, 99.0])), "accuracy, %", "n")
    ((segment,),) = (bar.get_segments() for bar in axes.containers[0].lines[2])
    assert segment[:, 1].tolist() == pytest.approx([0, 100])


def test_the_evidence_of_the_verdict_is_the_first_table() -> None:
    verdict = Verdict("depends", "because", {"a − b": "1 [0, 2]"})
    first, *others = tables(replace(found(), verdict=verdict))
    assert (first.rows, first.align) == ([["a − b", "1 [0, 2]"]], "lr")
    assert others == tables(found())


def test_ticks_of_a_log2_axis_are_the_measured_values() -> None:
    axes = new_figure(4, 3).subplots()
    axes.plot([8, 16, 64], [1, 2, 3])
    log2_axis(axes, [8, 16, 64])
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["8", "16", "64"]
    assert list(axes.get_xticks()) == [8, 16, 64]
