"""Reports of benches: ratios and files."""

import json
from pathlib import Path

import pytest

from glassformer.bench.harness import Report, Table
from glassformer.errors import DataError


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
