"""The report of a bench: tables, ratios and notes, saved as JSON with the machine."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from glassformer.evaluate.card import Sheet, Table, as_text, show_table
from glassformer.evaluate.html import sheet_html
from glassformer.machine import machine
from glassformer.output import save_text

WIDTH = 100  # columns of the tables


@dataclass(frozen=True)
class Report:
    """Tables, ratios to the best peer where there are peers, and notes on how to read them.

    It prints as tables, also in a notebook; `to_json` and `save` add the machine.
    """

    command: str
    tables: list[Table]
    ratios: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    threads: int | None = None
    failures: int = 0  # of a bench that checks something: lost requests, wrong answers, faults

    @property
    def worst_ratio(self) -> float | None:
        return min(self.ratios.values(), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the tables, ratios and notes with the machine, ready for `json.dumps`."""
        content = asdict(self) | {"machine": machine(self.threads)}
        del content["threads"], content["failures"]
        for table in content["tables"]:
            del table["align"]
        return {"worst_ratio": self.worst_ratio, **content} if self.ratios else content

    def save(self, path: str | Path) -> None:
        """Write the report as JSON."""
        content = json.dumps(self.to_json(), indent=2, ensure_ascii=False)
        save_text(Path(path), content + "\n")

    def show(self, console: Console) -> None:
        """Print the tables and notes."""
        for table in self.tables:
            show_table(table, console)
        for note in self.notes:
            console.print(note)

    def __str__(self) -> str:
        return as_text(self.show, WIDTH)

    def _repr_html_(self) -> str:
        return sheet_html(Sheet(self.command, self.tables, notes=self.notes))
