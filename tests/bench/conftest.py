"""The command line, in an empty folder with an empty cache of data."""

from pathlib import Path

import pytest

from train.runs import Command


@pytest.fixture
def glassformer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)
