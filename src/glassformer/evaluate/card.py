"""Tables of scores and measurements, printed to a terminal or written as Markdown."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from glassformer.errors import DataError

Row = list[str | int | float]


@dataclass(frozen=True)
class Table:
    """Columns and rows; `align` has an l or an r for each column.

    Without `align`, numbers are aligned right. Where all cells are text, all but the first column
    are.
    """

    title: str
    columns: list[str]
    rows: Sequence[Row] | Sequence[list[str]]
    align: str = ""

    @property
    def alignment(self) -> str:
        is_text = [isinstance(cell, str) for cell in self.rows[0]] if self.rows else []
        if self.align or all(is_text):
            return self.align or "l" + "r" * (len(self.columns) - 1)
        return "".join("l" if text else "r" for text in is_text)


@dataclass(frozen=True)
class Sheet:
    """A title, tables and notes; `quoted` is printed unbroken: signatures, checksums, commands."""

    title: str
    tables: list[Table]
    quoted: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Circumstances:
    """The conditions of a measurement: model, data, settings, machine, time and memory."""

    command: str
    model: str
    checksums: dict[str, str]  # SHA-256 of each file, or of each column of a named set's text
    settings: dict[str, Any]
    machine: dict[str, str | int]
    seconds: float
    peak_memory: int | None  # bytes of the process after its last output; None if unknown

    def tables(self) -> list[Table]:
        return [facts("settings", self.settings), facts("machine", self.machine)]

    def cost(self) -> list[list[str]]:
        memory = "unknown" if self.peak_memory is None else f"{self.peak_memory / 2**20:,.0f} MiB"
        return [["seconds", f"{self.seconds:,.1f}"], ["peak memory of the process", memory]]

    def quoted(self) -> dict[str, str]:
        digests = {f"SHA-256 of {name}": digest for name, digest in self.checksums.items()}
        return digests | {"command": self.command}


def facts(title: str, values: dict[str, Any]) -> Table:
    """Return a table of names and values."""
    rows = [[name, "none" if value is None else str(value)] for name, value in values.items()]
    return Table(title, ["", ""], rows, "ll")


def show(sheet: Sheet, console: Console) -> None:
    """Print a sheet; quoted lines are not wrapped."""
    console.print(Text(sheet.title, style="bold"))
    console.print()
    for table in sheet.tables:
        show_table(table, console)
    for name, text in sheet.quoted.items():
        console.print(Text(f"{name}: {text}"), soft_wrap=True)
    for note in sheet.notes:
        console.print(Text(note))


def as_text(show: Callable[[Console], None], width: int) -> str:
    """Return what `show` prints, in tables of at most `width` columns."""
    console = Console(file=(text := StringIO()), width=width, highlight=False)
    show(console)
    return text.getvalue().rstrip()


def show_table(table: Table, console: Console) -> None:
    """Print a table and an empty line."""
    rich = RichTable(
        title=Text(table.title, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        show_header=any(table.columns),
    )
    for column, side in zip(table.columns, table.alignment, strict=True):
        justify = "left" if side == "l" else "right"
        rich.add_column(Text(column), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in table.rows:
        rich.add_row(*(Text(cell_text(cell)) for cell in row))
    console.print(rich)
    console.print()


def cell_text(cell: str | int | float) -> str:
    """Return text as it is, integers with separators, other numbers with two decimals."""
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.2f}"


def markdown(sheet: Sheet) -> str:
    parts = [f"# {sheet.title}"]
    for table in sheet.tables:
        rows = [[cell_text(cell) for cell in row] for row in table.rows]
        parts += [f"## {table.title}", markdown_table(table.columns, rows, table.alignment)]
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
    """Return a cell that stays in its column and on its line."""
    return " ".join(text.replace("|", "\\|").split())
