"""One writer per run folder: a second one is refused, a lock whose owner is gone is taken over."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint import sole_writer
from glassformer.checkpoint.sole_writer import BOOT, LOCK, Owner
from glassformer.errors import CheckpointError

HOLDER = """\
import sys, time
from pathlib import Path
from glassformer.checkpoint import sole_writer
with sole_writer(Path(sys.argv[1]), print):
    print("held", flush=True)
    time.sleep(600)
"""


def unexpected(notice: str) -> None:
    raise AssertionError(notice)


def refusal(folder: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught, sole_writer(folder, unexpected):
        pass
    return caught.value


@contextmanager
def another_process(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds the lock of a folder."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def left_behind(folder: Path, **changes: Any) -> None:
    """A lock file whose owner is gone: this very process, but for what is changed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOCK).write_text(json.dumps(Owner.this_process()._asdict() | changes))


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with another_process(folder) as first:
        error = refusal(folder)
        assert f"Another training writes to {folder}: process {first.pid}" in error.what
        assert socket.gethostname() in error.what and "logs" in error.why
        assert f"--run {folder}-2" in error.remedy and error.exit_code == 4
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert (folder / LOCK).exists()
    err: list[str] = []
    with sole_writer(folder, err.append):
        assert Owner(**json.loads((folder / LOCK).read_text())).pid == os.getpid()
    assert len(err) == 1 and "is gone" in err[0] and str(first.pid) in err[0]
    assert not (folder / LOCK).exists()


def test_a_second_writer_in_one_process_is_refused_too(tmp_path: Path) -> None:
    with sole_writer(tmp_path, unexpected):
        assert "Another training" in refusal(tmp_path).what
    with sole_writer(tmp_path, unexpected):
        pass


@pytest.mark.parametrize(
    "changes",
    [{}, {"boot": "another"}, {"host": "another-container"}],
    ids=["its number is another's now", "before a reboot", "in another container"],
)
def test_a_lock_whose_owner_on_this_machine_is_gone_is_taken(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    """The number of the owner is that of a running process: this one, which holds no lock."""
    if "host" in changes and not BOOT.is_file():
        pytest.skip("this system does not tell containers from machines")
    left_behind(tmp_path, **changes)
    err: list[str] = []
    with sole_writer(tmp_path, err.append):
        pass
    assert len(err) == 1 and f"process {os.getpid()} on" in err[0]


def test_the_lock_of_another_machine_is_refused_with_what_to_do(tmp_path: Path) -> None:
    left_behind(tmp_path, host="elsewhere", boot="another", pid=17)
    error = refusal(tmp_path)
    assert "process 17 on elsewhere" in error.what and "cannot be seen from here" in error.why
    assert f"rm {tmp_path / LOCK}" in error.remedy
    (tmp_path / LOCK).unlink()
    with sole_writer(tmp_path, unexpected):
        pass


@pytest.mark.parametrize("content", [b"", b'{"host": "a', b"[1]", b'{"host": "a"}', b"\xff\xfe"])
def test_a_lock_file_cut_short_is_taken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK).write_bytes(content)
    with sole_writer(tmp_path, unexpected):
        assert Owner(**json.loads((tmp_path / LOCK).read_text())).pid == os.getpid()


def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    err: list[str] = []
    with sole_writer(tmp_path / "run", err.append):
        assert (tmp_path / "run" / LOCK).exists()
    assert len(err) == 1 and "has no locks" in err[0] and "Make sure that none does" in err[0]


def test_a_lock_file_removed_while_it_was_being_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner ended just then; a lock on a file without a name would exclude no process."""
    original, calls = fcntl.flock, iter(range(9))

    def slow(*arguments: Any) -> None:
        if next(calls) == 0:
            (tmp_path / LOCK).unlink()
        original(*arguments)

    monkeypatch.setattr(fcntl, "flock", slow)
    with sole_writer(tmp_path, unexpected):
        assert "Another training" in refusal(tmp_path).what


def test_only_folders_that_hold_something_remain(tmp_path: Path) -> None:
    for name in ("a/b", "c/d"):
        with sole_writer(tmp_path / name, unexpected):
            if name == "c/d":
                (tmp_path / name / "log.jsonl").touch()
    assert not (tmp_path / "a").exists() and (tmp_path / "c/d/log.jsonl").exists()
    assert tmp_path.exists()


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "could not be written" in refusal(tmp_path / "file").what
