"""Measurements that bench and lab share: time, memory, exponents and 95% intervals."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import NormalDist
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Run = Callable[[], object]
Name = TypeVar("Name")


def best_seconds(
    runs: Mapping[Name, Run],
    rounds: int,
    tick: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = perf_counter,
) -> dict[Name, float]:
    """Return the seconds of each run's best round, after one round of warm-up.

    Every round runs all of them in turn, so that noise of a shared machine reaches each. The clock
    `time.thread_time` counts processor time of this thread alone: set torch to one thread.
    """
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds + 1):
        for name, run in runs.items():
            start = clock()
            run()
            seconds = clock() - start
            if number > 0:
                best[name] = min(best[name], seconds)
            tick()
    return best


def t_quantile(freedom: int) -> float:
    """Return the 97.5% quantile of Student's t: the half-width of a 95% interval in std errors.

    A table up to 10 degrees of freedom, then Fisher's expansion around the normal distribution.
    """
    table = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
    if freedom <= len(table):
        return table[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def peak_bytes(run: Run) -> int:
    """Return the peak bytes that torch's CPU allocator holds for `run`."""
    _, held, _ = _recorded(run)
    return int(held.max(initial=0))


def peaks_within(run: Run, names: Collection[str]) -> dict[str, int]:
    """Return the peak bytes allocated inside each span of these names (`record_function`).

    A span that occurs several times counts with its highest peak.
    """
    times, held, events = _recorded(run)
    peaks = dict.fromkeys(names, 0)
    for span in events:
        if span.name() in peaks:
            begin, end = span.start_ns(), span.start_ns() + span.duration_ns()
            first, last = np.searchsorted(times, [begin, end])
            there = int(held[first - 1]) if first else 0
            most = int(held[first:last].max(initial=there)) - there
            peaks[span.name()] = max(peaks[span.name()], most)
    return peaks


def _recorded(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Any]]:
    """Return the times of allocator events, the bytes held after each, and all profiler events."""
    from torch.profiler import ProfilerActivity, profile

    run()  # warm-up: buffers that are allocated once and kept do not count
    with (
        silent_stderr(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record,
    ):
        run()
    results = record.profiler.kineto_results if record.profiler else None
    assert results is not None, "the profiler has stopped and holds its results"
    events = sorted(results.events(), key=lambda event: event.start_ns())
    changes = [event for event in events if event.name() == "[memory]"]
    times = np.array([event.start_ns() for event in changes], dtype=np.int64)
    held = np.cumsum([event.nbytes() for event in changes], dtype=np.int64)
    return times, held, events


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Silence the profiler's native code, which prints to stderr and has no option against it."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return p of the least-squares fit cost ≈ c · size^p."""
    slope, _ = np.polyfit(np.log(sizes), np.log(costs), 1)
    return float(slope)
