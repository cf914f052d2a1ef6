"""The report of a bench: tables, ratios and notes, saved as JSON with the machine."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from glassformer.evaluate.card import Table
from glassformer.machine import machine
from glassformer.output import save_text


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
        for table in content["tables"]:
            del table["align"]
        content = {"worst_ratio": self.worst_ratio, **content} if self.ratios else content
        save_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
