"""A batch in parts, each on threads of its own.

A step is some hundred small operations. Threads that share each of them wait for each other after
every one; parts of a batch have nothing in common, so that threads with a part each wait once, at
the end. No answer depends on its neighbours, so none depends on where a batch was parted.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from math import ceil
from threading import Barrier
from typing import TypeVar

import torch

T = TypeVar("T")
# Of a part: each reads all weights, and Python is asked by one thread at a time.
LEAST_ROWS, LEAST_PRODUCTS = 16, 100_000_000


def side_by_side(
    answer: Callable[[slice], list[T]], sentences: int, width: int, weights: int
) -> list[T]:
    """`answer` to all sentences, of which a step has `width` rows each for so many weights."""
    threads = torch.get_num_threads()
    least = max(LEAST_ROWS, ceil(LEAST_PRODUCTS / weights))
    parts = min(threads, sentences, sentences * width // least)
    if parts <= 1:
        return answer(slice(None))
    size = ceil(sentences / parts)
    places = (slice(begin, begin + size) for begin in range(0, sentences, size))
    return list(chain.from_iterable(_workers(parts, threads // parts).map(answer, places)))


@cache
def _workers(count: int, threads: int) -> ThreadPoolExecutor:
    """So many, each of which computes on so many threads."""
    ours = torch.get_num_threads()
    ready = Barrier(count + 1)

    def begin() -> None:
        torch.set_num_threads(threads)
        torch.get_num_threads()  # torch takes note in each thread when it is first asked
        ready.wait()

    workers = ThreadPoolExecutor(count, "search", begin)
    for _ in range(count):
        workers.submit(int)
    ready.wait()
    torch.set_num_threads(ours)  # the number is also that of threads still to come
    return workers


if hasattr(os, "register_at_fork"):  # a process that forks leaves its threads behind
    os.register_at_fork(after_in_child=_workers.cache_clear)
