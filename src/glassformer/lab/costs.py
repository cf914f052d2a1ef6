"""Seconds and bytes: how the lab measures what something costs, and how that grows.

Machines are shared and noisy: whatever is compared takes turns, the best turn of each counts, and
only the processor's time is taken.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import thread_time
from typing import TypeVar

import numpy as np
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]
Name = TypeVar("Name")


def seconds(runs: Mapping[Name, Run], turns: int) -> dict[Name, float]:
    """Of the best turn of each; one more turn before them warms up.

    Seconds that the processor spent on this thread: set torch to one thread, and what else the
    machine does is not counted.
    """
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(turns + 1):
        for name, run in runs.items():
            start = thread_time()
            run()
            if turn > 0:
                best[name] = min(best[name], thread_time() - start)
    return best


def peak_bytes(run: Run) -> int:
    """The most memory that torch held for `run` at once, beyond what was there before."""
    run()  # what is allocated once and kept does not count
    activities = [ProfilerActivity.CPU]
    with _quiet(), profile(activities=activities, profile_memory=True) as record:
        run()
    results = record.profiler.kineto_results if record.profiler else None
    assert results is not None, "the profiler has stopped and holds its results"
    events = [event for event in results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max(initial=0))


@contextmanager
def _quiet() -> Iterator[None]:
    """The profiler's native code writes to the terminal, and has no switch that stops it."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """p of the best fit cost ≈ c · size^p."""
    slope, _ = np.polyfit(np.log(sizes), np.log(costs), 1)
    return float(slope)
