"""Measurement for bench, evaluate and lab: time, allocated bytes, growth, intervals of a mean."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import sqrt
from statistics import NormalDist, stdev
from time import perf_counter, sleep
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Name = TypeVar("Name")
Run = Callable[[], object]
Tick = Callable[[], None]  # called after each step of a measurement

# 97.5% quantiles of Student's t with 1, 2, … degrees of freedom; a test integrates its density.
T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip


def best_seconds(
    runs: Mapping[Name, Run],
    rounds: int,
    tick: Tick = lambda: None,
    clock: Callable[[], float] = perf_counter,
) -> dict[Name, float]:
    """Time each run by `clock` and return the seconds of its best round.

    `time.thread_time` counts the processor time of this thread alone: set torch to one thread.
    """

    def timed(run: Run) -> float:
        start = clock()
        run()
        return clock() - start

    return best_of_rounds({name: partial(timed, run) for name, run in runs.items()}, rounds, tick)


def best_of_rounds(
    runs: Mapping[Name, Callable[[], float]],
    rounds: int,
    tick: Tick = lambda: None,
    *,
    pause: float = 0.0,
    warm_up: bool = True,
) -> dict[Name, float]:
    """Return the least seconds of each run; a run returns the seconds that it took.

    Machines are shared and noisy: runs take turns within each round, `pause` seconds apart. With
    `warm_up` a first round does not count.
    """
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds + warm_up):
        for name, run in runs.items():
            sleep(pause)
            seconds = run()
            if number >= warm_up:
                best[name] = min(best[name], seconds)
            tick()
    return best


def peak_bytes(run: Run) -> int:
    """Return the most bytes that torch's CPU allocator held at once, beyond those before `run`."""
    _, held, _ = _allocations(run)
    return int(held.max(initial=0))


def peaks_within(run: Run, names: Collection[str]) -> dict[str, int]:
    """Return the peak of each `record_function` span, beyond the bytes held when it began.

    A span that occurs several times counts with its largest peak.
    """
    times, held, events = _allocations(run)
    peaks = dict.fromkeys(names, 0)
    for span in events:
        if span.name() in peaks:
            begin, end = span.start_ns(), span.start_ns() + span.duration_ns()
            first, last = np.searchsorted(times, [begin, end])
            before = int(held[first - 1]) if first else 0
            peak = int(held[first:last].max(initial=before)) - before
            peaks[span.name()] = max(peaks[span.name()], peak)
    return peaks


def _allocations(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Any]]:
    """Return the times of allocations, the bytes held after each, and all events of the profile."""
    from torch.profiler import ProfilerActivity, profile  # evaluate works without torch

    run()  # memory that is allocated once and kept does not count
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
    """Discard file descriptor 2: the profiler's native code writes there and has no option."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return p of the best fit cost ≈ c · size^p."""
    slope, _ = np.polyfit(np.log(sizes), np.log(costs), 1)
    return float(slope)


def half_width(values: Sequence[float]) -> float | None:
    """Return half the 95% interval of the mean, by Student's t; None for fewer than two values."""
    n = len(values)
    return t_quantile(n - 1) * stdev(values) / sqrt(n) if n > 1 else None


def t_quantile(freedom: int) -> float:
    """Return the 97.5% quantile of Student's t; beyond the table, Fisher's expansion about z."""
    if freedom <= len(T):
        return T[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
