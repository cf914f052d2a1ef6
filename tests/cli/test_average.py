"""`glassformer average` makes a checkpoint that is the mean of others."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glassformer.checkpoint import Checkpoint, RunFolder, TrainingState, read
from glassformer.config import RunSettings


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "glassformer", "average", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("last", "expected"), [(1, 4.0), (2, 3.0), (9, 7 / 3)])
def test_the_last_checkpoints_are_averaged(tmp_path: Path, last: int, expected: float) -> None:
    for step, value in enumerate((1.0, 2.0, 4.0)):
        weights = {"w": np.full((2, 3), value, np.float32)}
        RunFolder(tmp_path).save(Checkpoint(RunSettings(), weights), step, False, 9)
    result = run(str(tmp_path), "--last", str(last))
    assert result.returncode == 0, result.stderr
    averaged = read(tmp_path / "averaged").weights["w"]
    assert averaged == pytest.approx(np.full((2, 3), expected))


def test_an_old_best_one_is_not_averaged_and_that_there_are_fewer_is_told(tmp_path: Path) -> None:
    for step, value in enumerate((9.0, 0.0, 1.0, 2.0, 3.0)):
        weights = {"w": np.full(2, value, np.float32)}
        checkpoint = Checkpoint(RunSettings(), weights)
        RunFolder(tmp_path).save(checkpoint, 500 * step, is_best=step == 0, keep=3)
    result = run(str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert "3 of the last 5 checkpoints are there: train.keep = 3" in result.stderr
    assert "step-00000000" not in result.stdout
    assert read(tmp_path / "averaged").weights["w"].tolist() == [2.0, 2.0]


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    result = run(str(tmp_path))
    assert result.returncode == 4
    assert "holds no checkpoint" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_checkpoint_that_a_run_goes_on_from_is_not_overwritten(tmp_path: Path) -> None:
    state = TrainingState({}, {})
    checkpoint = Checkpoint(RunSettings(), {"w": np.zeros(2)}, training=state)
    folder = RunFolder(tmp_path).save(checkpoint, 1, False, 9)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run(str(tmp_path), "--into", str(folder))
    assert result.returncode == 4 and "could not be resumed" in result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
