"""The report of a bench: its worst ratio and its file."""

import json
from pathlib import Path

import pytest

from glassformer.bench.report import Report
from glassformer.errors import DataError
from glassformer.evaluate.card import Table


def test_the_worst_ratio_is_the_smallest() -> None:
    report = Report("command", [Table("t", ["a"], [["x"]])], {"forward": 1.3, "backward": 1.1})
    assert report.worst_ratio == 1.1


def test_the_error_of_a_failed_write_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    report = Report("command", [], {"forward": 1.3})
    with pytest.raises(DataError, match=r"file/report\.json cannot be written"):
        report.save(tmp_path / "file/report.json")
    report = Report("command", [Table("t", ["a", "b"], [["x", 1.5]])], {"forward": 1.3})
    report.save(tmp_path / "new/report.json")
    saved = json.loads((tmp_path / "new/report.json").read_text())
    assert saved["worst_ratio"] == 1.3
    assert saved["tables"] == [{"title": "t", "columns": ["a", "b"], "rows": [["x", 1.5]]}]


def test_failures_are_for_the_caller_not_for_the_file() -> None:
    report = Report("command", [], failures=2)
    assert report.failures == 2 and "failures" not in report.to_json()
