"""Threads that run compiled code side by side; it releases the GIL."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def _workers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "engine")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_workers.cache_clear)


def together(work: Callable[[int], None], size: int) -> None:
    """Call work(0) … work(size - 1) at the same time, the first in this thread."""
    others = [_workers(size - 1).submit(work, i) for i in range(1, size)]
    work(0)
    for other in others:
        other.result()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
