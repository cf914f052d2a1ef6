"""The time to a BLEU: measured at a validation, interpolated only where it says so."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.bench.curves import Curve, Point
from glassformer.bench.time_to_bleu import (
    ESTIMATED,
    UNKNOWN,
    Timed,
    TimeToBleu,
    reached,
    timed,
)
from glassformer.errors import DataError, InputError, MissingPackageError
from train.runs import tiny, trained


def points(*scores: float, labels: int | None = 1_000) -> list[Point]:
    """A validation a minute, 1,000 target tokens each."""
    return [
        Point(10 * i, 60.0 * i, labels and labels * i, {"bleu": score, "loss": 1.0})
        for i, score in enumerate(scores, start=1)
    ]


def course(*scores: float, name: str = "run", counted: bool = True, **kw: int | None) -> Timed:
    return Timed(name, Curve(points(*scores, **kw), counted), None)


scores = st.lists(st.floats(0, 100), min_size=1, max_size=8)


@settings(deadline=None)
@given(scores, st.floats(0, 100))
def test_the_first_validation_at_or_above_the_target_counts(
    found: list[float], target: float
) -> None:
    there = reached(points(*found), target)
    if there is None:
        assert max(found) < target
    else:
        i = there.first.step // 10 - 1
        assert found[i] >= target and all(score < target for score in found[:i])


@settings(deadline=None)
@given(scores, st.floats(0, 100))
def test_the_crossing_lies_on_the_line_between_two_validations(
    found: list[float], target: float
) -> None:
    course = points(*found)
    there = reached(course, target)
    if there is None or there.first is course[0]:
        assert there is None or there.crossing is None
        return
    before = course[course.index(there.first) - 1]
    assert there.crossing is not None and there.crossing.labels is not None
    assert before.seconds <= there.crossing.seconds <= there.first.seconds
    share = (there.crossing.seconds - before.seconds) / 60
    low, high = before.scores["bleu"], there.first.scores["bleu"]
    assert low + share * (high - low) == pytest.approx(target, abs=1e-6)
    assert there.crossing.labels == pytest.approx(1_000 * there.crossing.seconds / 60, abs=0.51)


def table(*runs: Timed) -> list[list[str]]:
    return TimeToBleu(list(runs), 55.0, "command").sheet().tables[0].rows


def test_runs_are_rows_of_one_table() -> None:
    runs = [course(50, 60, 58, name="a"), course(54, 54.9, name="b"), course(56, 40, name="c")]
    first = "first validation at or above"
    assert table(*runs) == [
        ["a", first, "60.00", "20", "2.00", "2,000"],
        ["a", "interpolated", "55.00", UNKNOWN, "1.50", "1,500"],
        ["a", "best", "60.00", "20", "2.00", "2,000"],
        ["b", "not reached", *[UNKNOWN] * 4],
        ["b", "best", "54.90", "20", "2.00", "2,000"],
        ["c", first, "56.00", "10", "1.00", "1,000"],  # nothing before it to draw a line from
        ["c", "best", "56.00", "10", "1.00", "1,000"],
    ]
    curves = TimeToBleu(list(runs), 55.0, "command").sheet().tables[1].rows
    assert [row[0] for row in curves] == ["a"] * 3 + ["b"] * 2 + ["c"] * 2
    assert curves[1] == ["a", "60.00", "20", "2.00", "2,000"]


def test_estimated_token_counts_are_marked() -> None:
    run = course(50, 60, counted=False)
    assert [row[-1] for row in table(run)] == ["≈ 2,000", "≈ 1,500", "≈ 2,000"]
    assert ESTIMATED in TimeToBleu([run, course(50)], 55, "command").sheet().notes
    assert ESTIMATED not in TimeToBleu([course(50)], 55, "command").sheet().notes
    assert [row[-1] for row in table(course(50, 60, labels=None))] == [UNKNOWN] * 3


def test_json_holds_the_curve_the_command_and_the_machine() -> None:
    runs = [course(50, 60), course(10, name="b")]
    found = TimeToBleu(runs, 55.0, "glassformer bench …").to_json()
    assert found["command"] == "glassformer bench …" and found["machine"]["cores"] >= 1
    a, b = found["runs"]
    assert [point["bleu"] for point in a["curve"]] == [50, 60]
    assert a["first_at_or_above"] == a["curve"][1] == a["best"]
    assert a["interpolated"] == {"minutes": 1.5, "target_tokens": 1_500}
    assert b["first_at_or_above"] is None and b["interpolated"] is None


def test_a_run_is_read_with_its_settings(tmp_path: Path) -> None:
    data = tiny()
    trained(data, tmp_path, evaluate=lambda model: {"bleu": 12.0})
    run = timed(tmp_path)
    assert run.settings == data.settings and run.best.scores["bleu"] == 12.0
    (tmp_path / "log.jsonl").rename(tmp_path / "alone.jsonl")
    assert timed(tmp_path / "alone.jsonl").settings is None


def test_a_run_without_bleu_is_refused(tmp_path: Path) -> None:
    trained(tiny(), tmp_path)
    with pytest.raises(DataError, match="has no BLEU scores") as caught:
        timed(tmp_path)
    assert "train.metric=bleu" in caught.value.remedy


@pytest.mark.parametrize("labels", [1_000, None])
def test_all_runs_are_in_one_figure(tmp_path: Path, labels: int | None) -> None:
    path = tmp_path / "new" / "curve.svg"
    runs = [course(50, 60, name="one", labels=labels), course(10, name="other")]
    TimeToBleu(runs, 55.0, "command").draw(path)
    drawn = path.read_text()
    assert all(f">{text}</text>" in drawn for text in ("one", "other", "minutes"))
    assert (">million target tokens</text>" in drawn) == (labels is not None)


def test_a_figure_with_another_suffix_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"curve\.pdf is not the name of a figure"):
        TimeToBleu([course(50)], 55.0, "command").draw(tmp_path / "curve.pdf")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match="matplotlib"):
        TimeToBleu([course(50)], 55.0, "command").draw(tmp_path / "curve.svg")
