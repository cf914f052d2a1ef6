"""Faults in the middle of a run: kills, signals, full disks. A good checkpoint remains."""

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import torch

from glassformer.checkpoint import Checkpoint, RunFolder, TrainingState, read
from glassformer.checkpoint import format as checkpoint_format
from glassformer.config import RunSettings
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.train import loop
from glassformer.train.distributed import ALONE
from glassformer.train.log import Log
from glassformer.train.loop import train
from glassformer.train.signals import stop_signals
from glassformer.train.start import start
from train.runs import (
    RECIPE,
    KilledError,
    assert_equal,
    assert_same_bits,
    child,
    debris,
    steps,
    tiny,
    trained,
    unexpected,
)

KILLS = int(os.environ.get("GLASSFORMER_KILLS", "5"))


def some(value: float, size: int = 1_000) -> Checkpoint:
    """Weights of 4 bytes · size, and twice as much state."""
    state = TrainingState({"a": torch.full((2 * size,), value)}, {"position": {"step": value}})
    return Checkpoint(RunSettings(), {"w": torch.full((size,), value)}, training=state)


# Killed

SAVER = """\
import os, random, signal, sys, time
from pathlib import Path
from train.test_faults import some, survivors
from glassformer.checkpoint import RunFolder

folder, kills = Path(sys.argv[1]), int(sys.argv[2])
random.seed(0)
for kill in range(kills):
    first = survivors(folder) + 1
    saver = os.fork()
    if not saver:
        for step in range(first, first + 100_000):
            RunFolder(folder).save(some(step, 50_000), step, step % 3 == 0, 2)
    while not (folder / f"step-{first:08d}").exists():
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.05))
    os.kill(saver, signal.SIGKILL)
    os.waitpid(saver, 0)
survivors(folder)
"""


def survivors(folder: Path) -> int:
    """The newest step of a folder of which every checkpoint, and what each link names, is whole."""
    if not folder.exists():
        return 0
    run = RunFolder(folder)
    for path in [*run.steps(), folder / "latest", *folder.glob("best")]:
        saved = read(path, training=True)
        assert saved.training is not None
        assert len({*saved.weights["w"].tolist(), *saved.training.tensors["a"].tolist()}) == 1
    newest = run.newest(unexpected)
    return int(newest.weights["w"][0])


def test_killed_while_it_saves_it_always_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """The saver is a fork of a process that has imported torch: a kill then takes milliseconds."""
    tests = Path(__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-c", SAVER, str(tmp_path / "run"), str(KILLS)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60 + 2 * KILLS,
    )
    assert result.returncode == 0, result.stderr
    assert survivors(tmp_path / "run") >= KILLS
    RunFolder(tmp_path / "run").save(some(1e6), 10**6, False, 2)
    assert debris(tmp_path / "run") == []


@pytest.mark.parametrize("call", ["mkdir", "open", "rename", "symlink_to", "replace", "rmtree"])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_crash_at_any_step_of_saving_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, at: int
) -> None:
    """The same without chance: the process is gone before its nth call of a kind."""
    run = RunFolder(tmp_path)
    for step in (1, 2, 3):
        run.save(some(step), step, step == 1, 2)
    owner: Any = checkpoint_format.shutil if call == "rmtree" else Path
    original, calls = getattr(owner, call), iter(range(1, 1_000))

    def gone(*arguments: Any, **options: Any) -> Any:
        if next(calls) == at:
            raise SystemExit  # nothing catches it, as nothing catches a kill
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, call, gone)
        with suppress(SystemExit):
            run.save(some(4), 4, True, 2)
    assert survivors(tmp_path) in (3, 4)
    run.save(some(5), 5, False, 2)
    assert survivors(tmp_path) == 5
    assert debris(tmp_path) == []


def test_a_step_that_is_saved_again_is_there_until_the_new_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a validation that was put off, when it is the run's only checkpoint."""
    RunFolder(tmp_path).save(some(1), 1, False, 1)
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(checkpoint_format.shutil, "rmtree", lambda *_, **__: sys.exit())
        RunFolder(tmp_path).save(some(2), 1, True, 1)
    assert survivors(tmp_path) in (1, 2)


@pytest.mark.parametrize("is_saved", [True, False], ids=["after a save", "before it"])
def test_a_kill_around_a_save_loses_no_record_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_saved: bool
) -> None:
    save = loop.save

    def killed(run: Any, *arguments: Any) -> None:
        if is_saved or run.position.step < 8:
            save(run, *arguments)
        if run.position.step == 8:
            raise KilledError

    data = tiny(train={"max_steps": 10})
    trained(data, tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(loop, "save", killed)
        trained(data, tmp_path / "killed")
    trained(data, tmp_path / "killed", resume=True)
    assert_same_bits(tmp_path / "whole", tmp_path / "killed")


# A full disk


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The kernel itself refuses to write more: EFBIG, where a full disk says ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def assert_refused_without_a_trace(folder: Path, error: CheckpointError, reason: str) -> None:
    assert error.what == f"The checkpoint step-00000002 could not be written: {reason}."
    assert "checkpoints before it are whole" in error.why
    assert "Free some space" in error.remedy and "--resume" in error.remedy
    assert steps(folder) == [1] and debris(folder) == []
    assert survivors(folder) == 1


@pytest.mark.parametrize("size", [0, 3_000, 5_000], ids=["nothing", "half", "all but the state"])
def test_a_disk_that_is_full_leaves_the_old_checkpoint_and_no_debris(
    tmp_path: Path, size: int
) -> None:
    RunFolder(tmp_path).save(some(1), 1, True, 3)
    with files_no_larger_than(size), pytest.raises(CheckpointError) as caught:
        RunFolder(tmp_path).save(some(2), 2, True, 3)
    assert_refused_without_a_trace(tmp_path, caught.value, os.strerror(errno.EFBIG))
    RunFolder(tmp_path).save(some(2), 2, True, 3)  # once there is room again
    assert survivors(tmp_path) == 2


@pytest.mark.parametrize("at", range(1, 7))
def test_a_disk_that_is_full_only_when_it_is_flushed_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    RunFolder(tmp_path).save(some(1), 1, True, 3)
    calls, original = iter(range(1, 1_000)), os.fsync

    def full(descriptor: int) -> None:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    with monkeypatch.context() as patch, pytest.raises(CheckpointError) as caught:
        patch.setattr(os, "fsync", full)
        RunFolder(tmp_path).save(some(2), 2, True, 3)
    assert_refused_without_a_trace(tmp_path, caught.value, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["mkdir", "symlink_to"])
def test_a_disk_without_room_for_a_name_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    RunFolder(tmp_path).save(some(1), 1, True, 3)
    original = getattr(Path, call)

    def full(path: Path, *arguments: Any, **options: Any) -> None:
        if path.exists():
            return original(path, *arguments, **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(CheckpointError, match="could not be wr"):
        patch.setattr(Path, call, full)
        RunFolder(tmp_path).save(some(2), 2, True, 3)
    assert survivors(tmp_path) in (1, 2)


def test_a_run_on_a_full_disk_ends_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    trained(tiny(), tmp_path / "whole")
    run = start(tiny(), tmp_path / "run", ALONE, False, unexpected)

    def fill(record: dict[str, Any]) -> None:
        if record["step"] == 7:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, before[1]))

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with files_no_larger_than(before[0]), pytest.raises(CheckpointError, match="step-00000008"):
        train(run, report=fill)
    assert steps(tmp_path / "run") == [4]
    trained(tiny(), tmp_path / "run", resume=True)
    whole = RunFolder(tmp_path / "whole").newest(unexpected)
    assert_equal(RunFolder(tmp_path / "run").newest(unexpected).weights, whole.weights)


def test_a_log_that_cannot_be_written_is_one_clear_error_too(tmp_path: Path) -> None:
    log = Log(tmp_path, 0, tensorboard=False, report=lambda record: None)
    with files_no_larger_than(10), pytest.raises(GlassformerError, match=r"log\.jsonl"):
        log.write({"step": 1, "train_loss": 1.0})


# Signals


@contextmanager
def training(folder: Path, *changes: str) -> Iterator["subprocess.Popen[str]"]:
    """`glassformer train` in a process of its own, after its first update."""
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE)
    endless = ("train.max_steps=1000000", "train.validate_every=1000000", *changes)
    run = ("--run", str(folder / "run"))
    with child("-m", "glassformer", "train", str(recipe), *run, *endless) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "tokens/s" in line:
                    break
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_ends_the_run_within_seconds(
    tmp_path: Path, number: int, code: int
) -> None:
    with training(tmp_path) as process:
        process.send_signal(number)
        began = monotonic()
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert monotonic() - began < 10
    (step,) = steps(tmp_path / "run")
    assert f"stopped after {step:,} updates, " in err and f": signal {int(number)}\n" in err
    assert "Traceback" not in err
    data = tiny(train={"max_steps": step + 2})
    run, reason = trained(data, tmp_path / "run", resume=True)
    assert run.position.step == step + 2 and reason == f"{step + 2:,} updates"
    assert debris(tmp_path / "run") == []


def test_a_second_ctrl_c_ends_the_run_at_once(tmp_path: Path) -> None:
    """During an update of seconds, which a first one alone would wait for and then save."""
    slow = ("train.accumulate=1000", "data.examples=1000", "data.batch_tokens=1")
    with training(tmp_path, *slow) as process:
        for _ in range(2):
            sleep(0.5)  # two signals that arrive together count as one
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped after" not in err and "Traceback" not in err
    assert steps(tmp_path / "run") == []
    assert not (tmp_path / "run" / "latest").exists()


def test_the_first_signal_is_noted_and_the_second_interrupts() -> None:
    with stop_signals() as received:
        signal.raise_signal(signal.SIGTERM)
        assert received.received == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signals_mean_after_a_run_what_they_meant_before(tmp_path: Path) -> None:
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    trained(tiny(train={"max_steps": 2}), tmp_path, stop=1)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before
