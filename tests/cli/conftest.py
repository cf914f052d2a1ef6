"""Fixtures of the command line's tests."""

from pathlib import Path

import pytest

from glassformer.compiled import cache_folder
from train.runs import Command


@pytest.fixture
def glassformer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """The command, in a folder of its own, with a cache of its own and no data.

    Processes that it starts share the compiled code of this one.
    """
    monkeypatch.setenv("GLASSFORMER_CACHE", str(cache_folder().parents[1]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)  # that of xdist's workers
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)
