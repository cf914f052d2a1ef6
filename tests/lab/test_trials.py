"""Arms and seeds, one after the other or side by side."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from glassformer.lab.experiment import Arm, Budget, Measurement
from glassformer.lab.trials import load_module, over

ARMS: list[Arm] = [{"width": 3}, {"width": 1}]


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    torch.manual_seed(seed)
    yield Measurement(arm, seed, "sum", float(torch.rand(int(arm["width"])).sum()))
    yield Measurement(arm, seed, "threads", torch.get_num_threads())
    yield Measurement(arm, seed, "quick", float(quick))


def test_every_arm_runs_with_every_seed_on_one_thread() -> None:
    torch.set_num_threads(2)
    shares: list[float] = []
    found = over(trial, ARMS, Budget(False, (5, 6), 1), shares.append)
    assert [(m.arm, m.seed) for m in found[::3]] == [(a, s) for a in ARMS for s in (5, 6)]
    assert {m.value for m in found if m.quantity == "threads"} == {1}
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert torch.get_num_threads() == 2, "as it was before"


USERS = """
import os
import torch
from glassformer.lab.experiment import Measurement


def trial(times, arm, seed, quick):
    torch.manual_seed(seed)
    value = times * float(torch.rand(arm["width"]).sum())
    return [Measurement(arm, seed, "sum", value), Measurement(arm, seed, "process", os.getpid())]


def broken(arm, seed, quick):
    raise ArithmeticError(f"seed {seed}")
"""


def test_two_processes_find_what_one_finds_in_a_users_own_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USERS)
    module = load_module("own_experiment_mine", tmp_path / "mine.py")
    job = partial(module.trial, 2.0)
    alone, together = (over(job, ARMS, Budget(True, (0, 1), n), lambda _: None) for n in (1, 2))

    def sums(found: list[Measurement]) -> list[Measurement]:
        return [m for m in found if m.quantity == "sum"]

    assert sums(alone) == sums(together)
    processes = {m.value for m in together if m.quantity == "process"}
    assert os.getpid() not in processes
    with pytest.raises(ArithmeticError, match="seed 0"):
        over(module.broken, ARMS, Budget(True, (0, 1), 1), lambda _: None)
