"""`glassformer doctor` prints narrow tables, and fails where something is wrong."""

import pytest

from glassformer import doctor
from glassformer.doctor import Section
from train.runs import Command


def test_the_report_is_narrow_and_ends_with_a_verdict(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SECONDS", 0.0)
    code, out, _ = glassformer("doctor")
    assert code == 0 and out.splitlines()[-1] == "all is well"
    assert max(map(len, out.splitlines())) <= 78
    for word in ("versions", "kernel", "compiled code", "en-fr", "extras", "tokens/s"):
        assert word in out


def test_what_is_wrong_is_marked_and_the_exit_code_tells(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(*devices: object) -> list[Section]:
        return [
            Section("versions", [("python", "3", True)]),
            Section("models", [("en-fr", "damaged", False)]),
        ]

    monkeypatch.setattr(doctor, "examine", examine)
    code, out, _ = glassformer("doctor")
    assert code == 1 and out.splitlines()[-1] == "failed: models"
    assert "damaged  ← wrong" in out and "3  ←" not in out
