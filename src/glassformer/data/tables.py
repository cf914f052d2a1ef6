"""Tables from lines of text: TSV, CSV and JSON lines, one record at a time.

A record is a list of cells, a dict of JSON, or a `Bad` that says why it is none.
"""

import csv
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal

from glassformer.errors import DataError

Format = Literal["lines", "tsv", "csv", "jsonl"]
DELIMITERS = ",;\t"  # of CSV; where a comma is part of numbers, spreadsheets write semicolons
HEAD = 20  # lines that tell the delimiter


@dataclass(frozen=True)
class Bad:
    """The fault of a row, its column, and the number of lines that are lost by it."""

    reason: str
    detail: str = ""
    column: int = 0
    lines: int = 1


def records_of(lines: Iterator[str], layout: Format, name: str) -> Iterator[tuple[int, Any]]:
    """Yield each record with the number of its first line; `name` is what an error calls it."""
    if layout == "jsonl":
        return _jsonl(lines, name)
    return _csv(lines) if layout == "csv" else _tsv(lines)


def bare(line: str) -> str:
    return line.removesuffix("\r")


def _tsv(lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        yield number, bare(line).split("\t")


def _csv(lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
    head = list(islice(lines, HEAD))
    delimiter = delimiter_of(head)
    waiting, rest = deque[str](), chain(head, lines)
    begun: list[str] = []  # lines of the record that is being read

    def fed() -> Iterator[str]:
        while (line := waiting.popleft() if waiting else next(rest, None)) is not None:
            begun.append(line)
            yield f"{line}\n"  # a newline within quotes is part of a cell

    number, rows = 1, _strict(fed(), delimiter)
    while True:
        begun.clear()
        try:
            record: list[str] | Bad = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            if _is_open(begun, error):  # the lines after it are rows of their own
                waiting.extendleft(reversed(begun[1:]))
                del begun[1:]
                record = Bad("invalid CSV", "a quote is opened and never closed")
                rows = _strict(fed(), delimiter)
            else:
                record = Bad("invalid CSV", str(error), lines=len(begun))
        yield number, record
        number += len(begun)


def _strict(lines: Iterator[str], delimiter: str) -> Any:
    """Read CSV; lax, text after a closing quote would become part of the cell."""
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _is_open(lines: list[str], error: csv.Error) -> bool:
    """Return whether a record has no end: the file has, or it is longer than a cell may be."""
    characters = sum(len(line) + 1 for line in lines)
    return "end of data" in str(error) or characters > csv.field_size_limit()


def delimiter_of(head: list[str]) -> str:
    """Return the delimiter that gives each of the first lines of a CSV file the same columns."""
    for delimiter in DELIMITERS:
        rows = list(csv.reader((f"{line}\n" for line in head), delimiter=delimiter))
        whole = rows[:-1] if len(head) == HEAD else rows  # the last one may go on
        if len(widths := {len(row) for row in whole if row}) == 1 and widths != {1}:
            return delimiter
    first = head[0] if head else ""
    return next((one for one in DELIMITERS if one in first), DELIMITERS[0])


def _jsonl(lines: Iterator[str], name: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if number == 1:
            _refuse_array(line, name)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            record = Bad("invalid JSON", getattr(error, "msg", str(error)))
        yield number, _flat(record) if isinstance(record, dict) else record


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Add the cells of inner objects: {"translation": {"en": …, "fr": …}} is common."""
    inner = [cells for cells in record.values() if isinstance(cells, dict)]
    return {k: v for cells in inner for k, v in cells.items()} | record if inner else record


def _refuse_array(line: str, name: str) -> None:
    """A file that is one array has no line per record."""
    start = line.strip()
    if start.startswith("[") and start[1:].lstrip()[:1] in ("", "{", "["):
        raise DataError(
            f"{name} is one JSON array.",
            "It is read a line at a time, and each line is an object: JSON lines.",
            f"Convert it: jq -c '.[]' {name} > rows.jsonl.",
        )
