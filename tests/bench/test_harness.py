"""Contenders take turns fairly, and the worst ratio is what counts."""

import json
import time
from pathlib import Path

import pytest

from glassformer.bench.harness import Report, Table, interleave
from glassformer.errors import DataError


def test_contenders_take_turns_and_the_best_round_counts() -> None:
    order: list[str] = []
    naps = iter([0.0, 0.05, 0.01])

    def slow() -> None:
        order.append("slow")
        time.sleep(next(naps))

    ticks: list[int] = []
    best = interleave(
        {"slow": slow, "fast": lambda: order.append("fast")}, 2, lambda: ticks.append(1)
    )
    assert order == ["slow", "fast"] * 3
    assert len(ticks) == 6
    assert 0.01 <= best["slow"] < 0.05, "the warm-up does not count, the slower round neither"
    assert best["fast"] < best["slow"]


def test_the_worst_ratio_is_the_smallest() -> None:
    report = Report("command", [Table("t", ["a"], [["x"]])], {"forward": 1.3, "backward": 1.1})
    assert report.worst_ratio == 1.1


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    report = Report("command", [], {"forward": 1.3})
    with pytest.raises(DataError, match=r"file/report\.json cannot be written"):
        report.save(tmp_path / "file/report.json")
    report.save(tmp_path / "new/report.json")
    assert json.loads((tmp_path / "new/report.json").read_text())["worst_ratio"] == 1.3
