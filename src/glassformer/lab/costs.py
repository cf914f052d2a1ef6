"""Seconds: how the lab measures what something costs in time.

Machines are shared and noisy: whatever is compared takes turns, the best turn of each counts, and
only the processor's time is taken.
"""

from collections.abc import Mapping
from time import thread_time
from typing import TypeVar

from glassformer.measure import Run

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
