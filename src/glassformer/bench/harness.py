"""How contenders are measured, and what is reported of them.

Machines are shared and noisy, so contenders take turns within each round, the best round of each
counts, and what is reported is a ratio.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from glassformer.machine import machine
from glassformer.measure import Run
from glassformer.output import save_text

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
        save_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
