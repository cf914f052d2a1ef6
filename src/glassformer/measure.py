"""Bytes as the allocator sees them, and how a cost grows: for bench and lab alike."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]


def peak_bytes(run: Run) -> int:
    """The most memory that torch's CPU allocator held for `run` at once, beyond what was there."""
    run()  # what is allocated once and kept does not count
    with (
        silent_stderr(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record,
    ):
        run()
    results = record.profiler.kineto_results if record.profiler else None
    assert results is not None, "the profiler has stopped and holds its results"
    events = [e for e in results.events() if e.name() == "[memory]"]
    held = np.cumsum([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
    return int(held.max(initial=0))


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
