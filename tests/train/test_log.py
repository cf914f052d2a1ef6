"""The log: JSON lines that survive a crash and a resumed run, and TensorBoard on request."""

import json
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from glassformer.errors import CheckpointError, MissingPackageError
from glassformer.train.log import Log, read


def logged(folder, step: int, *records, tensorboard: bool = False):
    """A run that goes on at `step` and writes `records`; gives what was reported."""
    told = []
    log = Log(folder, step, tensorboard, told.append)
    for record in records:
        log.write(record)
    return told


def steps(folder) -> list[int]:
    return [record["step"] for record in read(folder / "log.jsonl")]


def test_records_are_reported_and_come_back(tmp_path):
    records = [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1 / 3, "best": True, "note": "é"}]
    folder = tmp_path / "a" / "run"
    assert logged(folder, 0, *records) == records
    assert read(folder / "log.jsonl") == records
    assert [json.loads(s) for s in (folder / "log.jsonl").read_text().splitlines()] == records


def test_a_line_is_on_the_disk_as_soon_as_it_is_written(tmp_path):
    log = Log(tmp_path, 0, False, lambda record: None)
    for step in range(3):
        log.write({"step": step})
        assert steps(tmp_path) == list(range(step + 1))


def test_no_log_has_no_records(tmp_path):
    assert read(tmp_path / "log.jsonl") == []


def test_a_resumed_run_drops_what_came_after_its_checkpoint(tmp_path):
    logged(tmp_path, 0, *[{"step": i, "run": 1} for i in range(1, 6)])
    logged(tmp_path, 3, {"step": 4, "run": 2})
    kept = read(tmp_path / "log.jsonl")
    assert [(r["step"], r["run"]) for r in kept] == [(1, 1), (2, 1), (3, 1), (4, 2)]


def test_a_new_run_drops_everything(tmp_path):
    logged(tmp_path, 0, {"step": 1}, {"step": 2})
    logged(tmp_path, 0)
    assert steps(tmp_path) == []


@pytest.mark.parametrize("rest", ['{"step": 3, "lo', '{"step": 3}', "{"])
def test_half_a_last_line_is_none(tmp_path, rest):
    logged(tmp_path, 0, {"step": 1}, {"step": 2})
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write(rest)
    assert steps(tmp_path) == [1, 2]
    logged(tmp_path, 2, {"step": 3})
    assert steps(tmp_path) == [1, 2, 3]


def test_a_place_that_cannot_be_a_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(CheckpointError, match="could not be written") as caught:
            logged(folder, 0)
        assert f"The log {folder / 'log.jsonl'}" in caught.value.what


def test_killed_as_it_begins_a_resumed_run_has_lost_no_record(tmp_path, monkeypatch):
    def killed(self, text, encoding):
        self.open("w").close()
        raise KeyboardInterrupt

    logged(tmp_path, 0, {"step": 1}, {"step": 2})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "write_text", killed)
        logged(tmp_path, 2)
    assert steps(tmp_path) == [1, 2]
    logged(tmp_path, 2, {"step": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


RECORDS = [{"step": i, "loss": i / 4, "labels": 10 * i, "note": "text"} for i in (1, 2, 3)]


def events(folder) -> dict[str, list[tuple[int, float]]]:
    board = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {
        tag: [(event.step, event.value) for event in board.Scalars(tag)]
        for tag in board.Tags()["scalars"]
    }


def test_tensorboard_gets_every_number_at_its_step(tmp_path):
    logged(tmp_path, 0, *RECORDS, tensorboard=True)
    expected = {name: [(r["step"], r[name]) for r in RECORDS] for name in ("loss", "labels")}
    deadline = time.monotonic() + 10  # a thread writes them
    while events(tmp_path) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert events(tmp_path) == expected


def test_without_tensorboard_there_are_no_events(tmp_path):
    logged(tmp_path, 0, *RECORDS)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingPackageError) as caught:
        Log(tmp_path, 0, True, lambda record: None)
    assert "'tensorboard'" in caught.value.what
    assert "train.tensorboard" in caught.value.why
    assert "glassformer[tensorboard]" in caught.value.remedy
