"""Threads that run compiled code side by side; it releases the GIL."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

import numpy as np

from glassformer.decode.search import slices

A = TypeVar("A")
B = TypeVar("B")


@cache
def _workers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "engine")


@cache
def _leader() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "engine-leader")


def _forget_threads() -> None:
    """Forget the threads of the parent: a forked process has none of them."""
    _workers.cache_clear()
    _leader.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def together(work: Callable[[int], None], size: int) -> None:
    """Call work(0) … work(size - 1) at the same time; they wait for each other as they go.

    One thread leads one team at a time: teams never wait for each other's workers, and Ctrl-C,
    which interrupts the main thread, cannot leave a team without one of its members.
    """
    if size == 1:
        return work(0)
    led = _leader().submit(_lead, work, size)
    try:
        led.result()
    finally:
        wait([led])


def _lead(work: Callable[[int], None], size: int) -> None:
    others = [_workers(size - 1).submit(work, i) for i in range(1, size)]
    work(0)
    for other in others:
        other.result()


def in_parts(
    work: Callable[[Sequence[A]], B], rows: Sequence[A], costs: Sequence[int], n_parts: int
) -> list[B]:
    """Return work(part) of contiguous parts of `rows` that cost about the same, side by side."""
    parts = [rows[part] for part in slices(np.array(costs, np.int64), n_parts)]
    if len(parts) <= 1:
        return [work(part) for part in parts]
    futures = [_workers(n_parts).submit(work, part) for part in parts]
    try:
        return [future.result() for future in futures]
    finally:
        wait(futures)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def is_machine_busy() -> bool:
    """Return whether other processes keep the cores busy, by the load of the last minute.

    Threads that wait for each other at every product then lose more than they gain: each time
    slice of another process holds up all of them. This process itself adds up to one per core.
    """
    load = getattr(os, "getloadavg", None)  # not on Windows
    return load is not None and load()[0] > (os.cpu_count() or 1) + 0.5
