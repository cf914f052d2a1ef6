"""Arms and seeds in one process and in several."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Arm, Budget, Measurement
from glassformer.lab.trials import load_module, model_device, run_trials

ARMS: list[Arm] = [{"width": 3}, {"width": 1}]


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    torch.manual_seed(seed)
    yield Measurement(arm, seed, "sum", float(torch.rand(int(arm["width"])).sum()))
    yield Measurement(arm, seed, "threads", torch.get_num_threads())
    yield Measurement(arm, seed, "quick", float(quick))


def test_every_arm_runs_with_every_seed_on_one_thread() -> None:
    torch.set_num_threads(2)
    shares: list[float] = []
    found = run_trials(trial, ARMS, Budget(False, (5, 6), 1), shares.append)
    assert [(m.arm, m.seed) for m in found[::3]] == [(a, s) for a in ARMS for s in (5, 6)]
    assert {m.value for m in found if m.quantity == "threads"} == {1}
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert torch.get_num_threads() == 2, "restored"


USERS = """
import os
import torch
from glassformer.lab.experiment import Measurement
from glassformer.lab.trials import model_device


def trial(times, arm, seed, quick):
    torch.manual_seed(seed)
    value = times * float(torch.rand(arm["width"]).sum())
    yield Measurement(arm, seed, "sum", value)
    yield Measurement(arm, seed, "process", os.getpid())
    yield Measurement(arm, seed, f"on {model_device()}", 1.0)


def broken(arm, seed, quick):
    raise ArithmeticError(f"seed {seed}")
"""


def test_two_processes_measure_what_one_does_on_the_device_of_the_budget(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USERS)
    module = load_module("own_experiment_mine", tmp_path / "mine.py")
    job = partial(module.trial, 2.0)
    alone, together = (
        run_trials(job, ARMS, Budget(True, (0, 1), n, "meta"), lambda _: None) for n in (1, 2)
    )

    def sums(found: list[Measurement]) -> list[Measurement]:
        return [m for m in found if m.quantity == "sum"]

    assert sums(alone) == sums(together)
    assert all("on meta" in {m.quantity for m in found} for found in (alone, together))
    assert model_device() == torch.device("cpu"), "given back"
    processes = {m.value for m in together if m.quantity == "process"}
    assert os.getpid() not in processes
    with pytest.raises(ArithmeticError, match="seed 0"):
        run_trials(module.broken, ARMS, Budget(True, (0, 1), 1), lambda _: None)


ENDLESS = """
import time
from glassformer.lab.experiment import Budget
from glassformer.lab.trials import run_trials


def trial(arm, seed, quick):
    print("begun\\n", end="", flush=True)  # one write: two processes share the pipe
    time.sleep(600)
    return []


if __name__ == "__main__":
    from glassformer.lab.trials import load_module
    mine = load_module("own_experiment_endless", __import__("pathlib").Path(__file__))
    run_trials(mine.trial, [{"width": 1}], Budget(False, (0, 1), 2), lambda _: None)
"""


def test_ctrl_c_ends_running_trials(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    command = [sys.executable, str(tmp_path / "endless.py")]
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert run.stdout is not None
    assert [run.stdout.readline() for _ in range(2)] == [b"begun\n"] * 2, "both are running"
    os.killpg(run.pid, signal.SIGINT)  # to all processes, as a terminal does
    assert run.wait(timeout=20) != 0
    run.stdout.close()
