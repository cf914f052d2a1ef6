"""Seconds: how the lab measures what something costs in time.

Machines are shared and noisy: whatever is compared takes turns, the best turn of each counts, and
only the processor's time is taken.
"""

from collections.abc import Mapping
from time import thread_time

from glassformer.measure import Name, Run, best_seconds


def seconds(runs: Mapping[Name, Run], turns: int) -> dict[Name, float]:
    """Of the best turn of each; one more turn before them warms up.

    Seconds that the processor spent on this thread: set torch to one thread, and what else the
    machine does is not counted.
    """
    return best_seconds(runs, turns, clock=thread_time)
