"""How contenders are measured, and what a bench reports.

Machines are shared and noisy: contenders take turns within each round, the best round of each
counts, and the result is a ratio.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from glassformer.machine import machine
from glassformer.output import save_text

Tick = Callable[[], None]  # called after each step of a measurement
Run = Callable[[], object]
Row = list[str | int | float]


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Report:
    """Tables, ratios to the best peer where there are peers, and notes on how to read them."""

    command: str
    tables: list[Table]
    ratios: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    threads: int | None = None

    @property
    def worst_ratio(self) -> float | None:
        return min(self.ratios.values(), default=None)

    def save(self, path: Path) -> None:
        content = asdict(self) | {"machine": machine(self.threads)}
        del content["threads"]
        content = {"worst_ratio": self.worst_ratio, **content} if self.ratios else content
        save_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
