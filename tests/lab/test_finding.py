"""Findings and their JSON files, with infinite and NaN values."""

import json
from dataclasses import replace
from math import inf, isnan, nan
from pathlib import Path

import pytest

from glassformer.errors import DataError
from glassformer.lab.experiment import Budget, Experiment, Measurement, Results, Tick, Verdict
from glassformer.lab.finding import STATED, Finding, load, run, save
from lab.fakes import QUICK, runs


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    tick(1.0)
    return runs("steps", {"kind": "<a>", "size": 2}, [3.0, inf, nan])


def judge(results: Results) -> Verdict:
    return Verdict("depends", f"{results.summary('steps').failed} failed")


EXAMPLE = Experiment(
    name="example",
    title="An example",
    claim="a < b",
    source="nowhere",
    varied="the size",
    measured="steps",
    rule="none",
    measure=measure,
    judge=judge,
    draw=lambda results, figure: None,
    shown=("steps",),
)


def found() -> Finding:
    return run(EXAMPLE, QUICK, "glassformer lab run example", {"cpu": "a good one"})


def test_a_run_is_measured_then_judged() -> None:
    shares: list[float] = []
    finding = run(EXAMPLE, QUICK, "x", {}, shares.append)
    assert shares == [1.0] and finding.verdict == Verdict("depends", "2 failed")
    assert finding.stated == {name: getattr(EXAMPLE, name) for name in STATED}
    assert 0 <= finding.seconds < 5


def test_a_finding_survives_a_round_trip_through_its_file(tmp_path: Path) -> None:
    before, path = found(), tmp_path / "new/example.json"
    save(before, path, [])
    after = load(path)
    assert replace(after, results=before.results, seconds=before.seconds) == before
    values = after.results.values("steps")
    assert values[:2] == [3.0, inf] and isnan(values[2])
    assert after.results.arms() == [{"kind": "<a>", "size": 2}]
    content = json.loads(path.read_text(), parse_constant=lambda name: 1 / 0)
    assert [m["value"] for m in content["measurements"]] == [3.0, "inf", "nan"]


@pytest.mark.parametrize("text", ["{}", "[1]", "no JSON", '{"name": 1}'])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "else.json").write_text(text)
    with pytest.raises(DataError, match=r"else\.json is not the result of an experiment"):
        load(tmp_path / "else.json")
