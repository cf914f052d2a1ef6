"""How things are measured: interleaved rounds, bytes as the allocator sees them, fitted exponents.

Machines are shared and noisy, so contenders take turns within each round, the best round of each
counts, and what is reported is a ratio.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from torch.profiler import ProfilerActivity, profile

from glassformer.machine import machine

Run = Callable[[], object]
Tick = Callable[[], None]
Row = list[str | int | float]


def interleave(contenders: dict[str, Run], rounds: int, tick: Tick) -> dict[str, float]:
    """Seconds of each contender's best round; one more round before them warms up."""
    best = dict.fromkeys(contenders, float("inf"))
    for number in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            seconds = time.perf_counter() - start
            if number > 0:
                best[name] = min(best[name], seconds)
            tick()
    return best


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


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Report:
    """Tables, the ratios against the best peer, and what one needs to judge them."""

    command: str
    tables: list[Table]
    ratios: dict[str, float]
    notes: list[str] = field(default_factory=list)

    @property
    def worst_ratio(self) -> float:
        return min(self.ratios.values())

    def save(self, path: Path) -> None:
        content = {"worst_ratio": self.worst_ratio, **asdict(self), "machine": machine()}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
