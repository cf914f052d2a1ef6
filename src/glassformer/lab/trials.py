"""Run every arm with every seed, in as many processes as the budget has threads.

The models are too small to gain from a second thread. A second process doubles the throughput, and
a trial always has one thread, so its numbers do not depend on the number of processes.
"""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from glassformer.lab.experiment import Arm, Budget, Measurement, Tick

# A function of an arm, a seed and `quick`. Another process imports it: it is a function of a module
# or a functools.partial of one.
Trial = Callable[[Arm, int, bool], Iterable[Measurement]]
CPU = torch.device("cpu")
_DEVICE = ContextVar("device of the models that learn", default=CPU)


def model_device() -> torch.device:
    """Return the device of the models of this run: `small_model` puts them there."""
    return _DEVICE.get()


@contextmanager
def models_on(device: torch.device) -> Iterator[None]:
    """Put the models that are made inside the block on a device."""
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def run_trials(trial: Trial, arms: Sequence[Arm], budget: Budget, tick: Tick) -> list[Measurement]:
    """Return the measurements of trial(arm, seed, quick) for each arm and seed, in their order."""
    jobs = [(arm, seed, budget.quick) for arm in arms for seed in budget.seeds]
    done: dict[int, list[Measurement]] = {}
    device = torch.device(budget.device)
    for number, found in _results(trial, jobs, min(budget.threads, len(jobs)), device):
        done[number] = found
        tick(len(done) / len(jobs))
    return [m for number in range(len(jobs)) for m in done[number]]


def _results(
    trial: Trial, jobs: Sequence[tuple[Arm, int, bool]], processes: int, device: torch.device
) -> Iterator[tuple[int, list[Measurement]]]:
    if processes <= 1:
        with one_thread(), models_on(device):
            for number, job in enumerate(jobs):
                yield number, _run(trial, job)
        return
    with ProcessPoolExecutor(
        processes,
        multiprocessing.get_context("spawn"),  # torch's threads do not survive a fork
        initializer=_start_process,
        initargs=(*_module_of(trial), device),
    ) as pool:
        jobs_by_future = {pool.submit(_run, trial, job): i for i, job in enumerate(jobs)}
        try:
            for future in as_completed(jobs_by_future):
                yield jobs_by_future[future], future.result()
        finally:  # after an error or Ctrl-C, no further trial starts
            pool.shutdown(wait=False, cancel_futures=True)


def _run(trial: Trial, job: tuple[Arm, int, bool]) -> list[Measurement]:
    return list(trial(*job))


def _module_of(trial: Any) -> tuple[str, str]:
    """Return the name and file of a trial's module; a user's module is not on the import path."""
    while isinstance(trial, partial):
        trial = trial.func
    module = sys.modules[trial.__module__]
    return module.__name__, str(module.__file__)


def _start_process(name: str, file: str, device: torch.device) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a trial, which may take a minute
    torch.set_num_threads(1)
    _DEVICE.set(device)
    if not name.startswith("glassformer."):
        load_module(name, Path(file))


def load_module(name: str, file: Path) -> ModuleType:
    """Import the module in `file` under `name`."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has a loader"
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
