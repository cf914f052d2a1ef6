"""Reports of several processes come back to the process that started them."""

import json
from pathlib import Path

import pytest

from glassformer.api.processes import _read
from glassformer.errors import GlassformerError, MissingPackageError


@pytest.mark.parametrize("kind", ["DataError", "SettingsError", "MissingPackageError"])
def test_an_error_of_theirs_is_raised_here_with_its_kind(tmp_path: Path, kind: str) -> None:
    told = {"kind": kind, "what": "What.", "why": "Why.", "remedy": "Do."}
    (tmp_path / "outcome.json").write_text(json.dumps({"error": told}))
    with pytest.raises(GlassformerError) as caught:
        _read(tmp_path / "outcome.json")
    assert type(caught.value).__name__ == kind
    assert str(caught.value) == "What.\n  why:  Why.\n  next: Do."
    if kind == "MissingPackageError":
        assert isinstance(caught.value, MissingPackageError) and caught.value.exit_code == 2


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = {"settings": "", "steps": 8, "best": None, "reason": "8 updates", "signal": 2}
    (tmp_path / "outcome.json").write_text(json.dumps(found))
    assert _read(tmp_path / "outcome.json") == found
