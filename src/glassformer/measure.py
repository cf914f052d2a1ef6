"""Bytes as the allocator sees them, and how a cost grows: for bench and lab alike."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]


def peak_bytes(run: Run) -> int:
    """The most memory that torch's CPU allocator held for `run` at once, beyond what was there."""
    _, held, _ = _recorded(run)
    return int(held.max(initial=0))


def peaks_within(run: Run, names: Collection[str]) -> dict[str, int]:
    """The same for the spans of these names (`record_function`): beyond what was there before each.

    Of a span that comes often, the time when it took most.
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
    """When the allocator gave or took, what it then held, and all else that happened."""
    run()  # what is allocated once and kept does not count
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
    """The profiler's native code reports to the terminal, and has no switch that stops it."""
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
