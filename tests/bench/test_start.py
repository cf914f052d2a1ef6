"""`bench start` measures commands from outside."""

import json
from pathlib import Path

import pytest

from glassformer.bench import start
from glassformer.bench.start import Plan, Started, bench_start, launch
from train.runs import Command


def test_a_process_is_measured_from_outside() -> None:
    held = bytearray(2**28)  # a quarter of a GiB that is not the child's
    run = launch(["--version"])
    assert 0 < run.seconds < 60
    assert 2**22 < run.peak < len(held)


def test_a_command_that_fails_is_reported() -> None:
    with pytest.raises(RuntimeError, match="ended with 2"):
        launch(["--no-such-option"])


def test_the_first_run_compiles_into_an_empty_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: list[bool] = []

    def launched(arguments: list[str], environment: dict[str, str] | None = None) -> Started:
        folder = (environment or {}).get("GLASSFORMER_CACHE")
        caches.append(bool(folder) and not list(Path(str(folder)).iterdir()))
        return Started(7.5 if folder else 0.5, 2**27)

    monkeypatch.setattr(start, "launch", launched)
    plan, ticks = Plan(times=3), list[int]()
    report = bench_start(plan, "command", lambda: ticks.append(1))
    assert caches == [False, True] + [False] * 6 and len(ticks) == plan.steps
    assert [row[1:] for row in report.tables[0].rows] == [
        [3, 0.5, 0.5, 128], [3, 0.5, 0.5, 128], [1, 7.5, 7.5, 128],
    ]  # fmt: skip
    assert "took 7.0 s" in report.notes[1]


def test_the_command_prints_and_saves_its_report(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "launch", lambda *_: Started(0.5, 2**27))
    code, out, error = glassformer("bench", "start", "--quick")
    assert code == 0, error
    assert "glassformer --help" in out and "worst ratio" not in out
    written = json.loads(Path("results/quick/bench_start.json").read_text())
    assert "worst_ratio" not in written and written["machine"]["cores"] >= 1
