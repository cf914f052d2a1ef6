"""Score cards as a reader sees them: one shape of tables, for a terminal and in Markdown."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from glassformer.errors import DataError


@dataclass(frozen=True)
class Table:
    """Cells are text as it is to be read; `align` has an l or an r for each column."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    align: str = ""  # empty: the first column to the left, the others to the right

    @property
    def alignment(self) -> str:
        return self.align or "l" + "r" * (len(self.columns) - 1)


@dataclass(frozen=True)
class Sheet:
    """What a card shows. `quoted` is what must be copied to the letter: signatures, checksums."""

    title: str
    tables: list[Table]
    quoted: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Circumstances:
    """What was measured, with what and on what: without these a score is a rumour."""

    command: str
    model: str
    checksums: dict[str, str]  # SHA-256 of each file, or of each column of a named set's text
    settings: dict[str, Any]
    machine: dict[str, str | int]
    seconds: float
    peak_memory: int | None  # bytes of the whole process (ru_maxrss) once the answers were there

    def tables(self) -> list[Table]:
        return [facts("settings", self.settings), facts("machine", self.machine)]

    def cost(self) -> list[list[str]]:
        memory = "not told" if self.peak_memory is None else f"{self.peak_memory / 2**20:,.0f} MiB"
        return [["seconds", f"{self.seconds:,.1f}"], ["peak memory of the process", memory]]

    def quoted(self) -> dict[str, str]:
        digests = {f"SHA-256 of {name}": digest for name, digest in self.checksums.items()}
        return digests | {"command": self.command}


def facts(title: str, values: dict[str, Any]) -> Table:
    """A table of names and values."""
    rows = [[name, "none" if value is None else str(value)] for name, value in values.items()]
    return Table(title, ["", ""], rows, "ll")


def show(sheet: Sheet, console: Console) -> None:
    """Print a sheet, the long lines of what is quoted unbroken."""
    console.print(Text(sheet.title, style="bold"))
    console.print()
    for table in sheet.tables:
        rich = RichTable(
            title=Text(table.title, style="bold"),
            title_justify="left",
            box=SIMPLE_HEAD,
            show_edge=False,
            show_header=any(table.columns),
        )
        for column, side in zip(table.columns, table.alignment, strict=True):
            justify = "left" if side == "l" else "right"
            rich.add_column(Text(column), justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in table.rows:
            rich.add_row(*map(Text, row))
        console.print(rich)
        console.print()
    for name, text in sheet.quoted.items():
        console.print(Text(f"{name}: {text}"), soft_wrap=True)
    for note in sheet.notes:
        console.print(Text(note))


def markdown(sheet: Sheet) -> str:
    parts = [f"# {sheet.title}"]
    for table in sheet.tables:
        parts += [f"## {table.title}", markdown_table(table.columns, table.rows, table.alignment)]
    parts += ["\n".join(f"- {name}: `{text}`" for name, text in sheet.quoted.items())]
    return "\n\n".join([*filter(None, parts), *sheet.notes]) + "\n"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    rules = [":--" if side == "l" else "--:" for side in align]
    lines = [columns, rules, *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def with_section(text: str, heading: str, body: str) -> str:
    """Return Markdown with the body of the section `## heading` replaced, or put at its end."""
    pattern = re.compile(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    section = f"## {heading}\n\n{body.strip()}\n"
    if not pattern.search(text):
        return f"{text.rstrip()}\n\n{section}"
    replaced = pattern.sub(lambda _: f"{section}\n", text, count=1)
    return replaced.rstrip() + "\n"


def with_fact(text: str, name: str, value: str) -> str:
    """Return a model card with the row `name` of its first table replaced; refuse one without."""
    replaced, count = re.subn(
        rf"^\| {re.escape(name)} \| [^|\n]* \|$", f"| {name} | {value} |", text, count=1, flags=re.M
    )
    if not count:
        raise DataError(
            f"The card has no row | {name} | … |.",
            "The list of models takes its score from there.",
            f"Add a table of two columns under its heading, with a row | {name} | none yet |.",
        )
    return replaced


def _cell(text: str) -> str:
    """A cell stays in its column and on its line."""
    return " ".join(text.replace("|", "\\|").split())
