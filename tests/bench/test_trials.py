"""A folder is of one set of settings, and remembers how it ended."""

import json
from pathlib import Path

import pytest

from glassformer.bench.trials import RECIPE, check_claim, claim, conclude, error_of, is_over
from glassformer.errors import CheckpointError, SettingsError
from train.runs import TINY, tiny, trained


def test_a_folder_is_accepted_for_the_same_settings_only(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    check_claim(folder, TINY)
    assert not folder.exists()
    assert claim(folder, TINY) is False and claim(folder, TINY) is False
    other = TINY.replace(train={"clip": 2.0, "patience": 3}, model={"d_ff": 32})
    for refuse in (check_claim, claim):
        with pytest.raises(SettingsError, match="holds a run with other settings") as caught:
            refuse(folder, other)
        assert "model.d_ff = 16, now 32" in caught.value.what
        assert "train.clip = 1.0, now 2.0, train.patience = None, now 3" in caught.value.what
    assert [path.name for path in folder.iterdir()] == [RECIPE]


def test_claim_returns_whether_there_is_a_checkpoint(tmp_path: Path) -> None:
    claim(tmp_path, TINY)
    trained(tiny(), tmp_path, stop=2)
    assert claim(tmp_path, TINY) is True


def test_a_run_of_another_command_is_refused(tmp_path: Path) -> None:
    trained(tiny(), tmp_path)
    with pytest.raises(SettingsError, match="a run of another command"):
        claim(tmp_path, TINY)
    assert not (tmp_path / RECIPE).exists()


@pytest.mark.parametrize("error", [None, "The loss is nan."])
def test_the_outcome_of_a_run_is_stored(tmp_path: Path, error: str | None) -> None:
    claim(tmp_path, TINY)
    assert not is_over(tmp_path)
    conclude(tmp_path, error)
    assert is_over(tmp_path) and error_of(tmp_path) == error
    assert json.loads((tmp_path / "outcome.json").read_text()) == {"error": error}


def test_a_path_that_is_a_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="could not be written") as caught:
        claim(tmp_path / "file" / "run", TINY)
    assert str(tmp_path / "file" / "run") in caught.value.what
