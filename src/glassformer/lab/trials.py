"""Every arm with every seed, in as many processes as the budget has threads.

A model of the lab is so small that a second thread would only wait. A second process does twice
the work, and every trial has one thread, so its numbers are the same however many run.
"""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from glassformer.lab.experiment import Arm, Budget, Measurement, Tick

# Of an arm, a seed and whether it is to be quick: all that was measured. A function of a module,
# or a functools.partial of one, so that another process finds it.
Trial = Callable[[Arm, int, bool], Iterable[Measurement]]


def over(trial: Trial, arms: Sequence[Arm], budget: Budget, tick: Tick) -> list[Measurement]:
    """What trial(arm, seed, quick) measures for each arm and seed, in their order."""
    jobs = [(arm, seed, budget.quick) for arm in arms for seed in budget.seeds]
    done: dict[int, list[Measurement]] = {}
    for number, found in _results(trial, jobs, min(budget.threads, len(jobs))):
        done[number] = found
        tick(len(done) / len(jobs))
    return [m for number in range(len(jobs)) for m in done[number]]


def _results(
    trial: Trial, jobs: Sequence[tuple[Arm, int, bool]], processes: int
) -> Iterator[tuple[int, list[Measurement]]]:
    if processes <= 1:
        with one_thread():
            for number, job in enumerate(jobs):
                yield number, list(trial(*job))
        return
    with ProcessPoolExecutor(
        processes,
        multiprocessing.get_context("spawn"),  # a fork would inherit torch's threads, stopped
        initializer=_ready,
        initargs=_home(trial),
    ) as pool:
        waiting = {pool.submit(_listed, trial, job): i for i, job in enumerate(jobs)}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:  # after an error or Ctrl-C, no trial that has not begun is begun
            pool.shutdown(wait=False, cancel_futures=True)


def _listed(trial: Trial, job: tuple[Arm, int, bool]) -> list[Measurement]:
    return list(trial(*job))


def _home(trial: Any) -> tuple[str, str]:
    """The module of a trial and its file: a user's own cannot be found by its name alone."""
    while isinstance(trial, partial):
        trial = trial.func
    module = sys.modules[trial.__module__]
    return module.__name__, str(module.__file__)


def _ready(name: str, file: str) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # Ctrl-C ends it at once: a trial may take a minute
    torch.set_num_threads(1)
    if not name.startswith("glassformer."):
        load_module(name, Path(file))


def load_module(name: str, file: Path) -> ModuleType:
    """The module in `file`, known as `name` from now on."""
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
