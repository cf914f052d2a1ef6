"""Guess what a user's file holds: its format, its columns, their languages, the labels."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

from glassformer.data import languages
from glassformer.data.corpus import (
    Corpus,
    Row,
    TextFiles,
    layout_of,
    records,
    text_lines,
)
from glassformer.data.tables import Format
from glassformer.errors import DataError, SettingsError

Kind = Literal["translator", "classifier"]
T = TypeVar("T")
R = TypeVar("R", bound=Sequence[Any])
SAMPLE = 2_000  # rows, drawn from the whole file: a file is often sorted by its labels
MAX_LABELS = 100  # distinct values; a column of more is no label
ROWS_PER_LABEL = 4  # at least, on average
LABEL_LENGTH = 40  # characters of the longest label
USUAL = 0.9  # share of the rows whose width is that of the table
LOOKED_AT = 100  # first lines of a plain file, which may be a table
HELD_OUT = 10, 20  # one example of so many validates: of a classifier, of a translator

SOURCES = ("source", "src", "input", "from", "original")
TARGETS = ("target", "tgt", "trg", "translation", "output", "to", "reference")
TEXTS = ("text", "review", "sentence", "comment", "content", "body", "message", "document")
LABELS = ("label", "sentiment", "class", "category", "target", "stars", "rating", "y", "polarity")


@dataclass(frozen=True)
class Own:
    """A user's file and how to read it: two columns, and what they are."""

    kind: Kind
    files: TextFiles
    columns: tuple[str, str]  # as a line tells them
    languages: tuple[str, str]  # of a classifier's text, twice
    labels: tuple[str, ...]  # of a classifier, in the sample

    def __str__(self) -> str:
        """Tell what was guessed in one line."""
        first, second = self.columns
        if self.kind == "classifier":
            some = ", ".join(self.labels[:6]) + (", …" if len(self.labels) > 6 else "")
            return f"{self.files}: text {first}, label {second} ({some})"
        one, other = (f" ({lang})" if lang != languages.UNKNOWN else "" for lang in self.languages)
        return f"{self.files}: from {first}{one} to {second}{other}"


@dataclass(frozen=True)
class _Table:
    """A sample of a file: rows of cells, and the names of the columns if it has any."""

    names: tuple[str, ...] | None
    rows: list[tuple[str, ...]]

    @property
    def width(self) -> int:
        return len(self.names) if self.names else max(map(len, self.rows))

    @property
    def usual_width(self) -> int | None:
        """Return the width of nearly all rows; None if they differ."""
        ((width, count),) = Counter(map(len, self.rows)).most_common(1)
        return width if count >= USUAL * len(self.rows) else None

    def column(self, number: int) -> list[str]:
        return [row[number] for row in self.rows if len(row) > number]

    def name(self, number: int) -> str:
        return self.names[number] if self.names else f"column {number + 1}"


def look(paths: Sequence[str | Path], kind: Kind | None = None, columns: Sequence[str] = ()) -> Own:
    """Return what a file seems to hold, or one file per side; `columns` are not guessed.

    Without `kind`, a file with a column of labels is for a classifier, another for a translator.
    """
    files = tuple(map(Path, paths))
    if len(files) > 1 or (len(files) == 1 and _layout(files[0]) == "lines"):
        return _parallel(files, kind, columns)
    (path,) = files
    layout = _layout(path)
    table = _sample(path, layout)
    asked = kind or _kind(table)
    chosen = _named(table, path, columns) if columns else _guessed(table, asked, path)
    of_text = [table.column(i) for i in chosen]
    spelt = tuple(table.names[i] if table.names else str(i + 1) for i in chosen)
    numbers = tuple(i + 1 for i in chosen)
    usual = None if table.names or layout == "jsonl" else table.usual_width
    found = TextFiles((path,), spelt if table.names else numbers, layout, width=usual)
    return Own(
        asked,
        found,
        (table.name(chosen[0]), table.name(chosen[1])),
        _languages(asked, spelt, of_text),
        tuple(sorted({*of_text[1]} - {""})) if asked == "classifier" else (),
    )


def _parallel(files: tuple[Path, ...], kind: Kind | None, columns: Sequence[str]) -> Own:
    if len(files) != 2 or columns or any(_layout(path) != "lines" for path in files):
        raise DataError(
            f"{' and '.join(map(str, files))} {'are' if len(files) > 1 else 'is'} no text with "
            f"{'labels' if kind == 'classifier' else 'its translation'}.",
            "It is one TSV, CSV or JSONL file of two columns, or two plain files, line by line.",
            "For example pairs.tsv; or text.en and text.fr, each with an option of its own.",
        )
    samples = [_drawn(text_lines(path)) for path in files]
    suffixes = [path.name.removesuffix(".gz").rpartition(".")[2] for path in files]
    asked: Kind = kind or "translator"
    labels = tuple(sorted(set(samples[1]))) if asked == "classifier" else ()
    found = _languages(asked, suffixes, samples)
    return Own(asked, TextFiles(files), (files[0].name, files[1].name), found, labels)


def _layout(path: Path) -> Format:
    """Return the format of a file: by its name, or TSV if every line of a plain file has a tab."""
    layout = layout_of(path)
    some = list(islice(text_lines(path), LOOKED_AT)) if layout == "lines" else []
    return "tsv" if some and all("\t" in line for line in some) else layout


def _drawn(items: Iterator[T]) -> list[T]:
    """Draw a sample of a stream of unknown length, each item as likely as any (reservoir)."""
    draw = Random(0)
    sample: list[T] = []
    for number, item in enumerate(items):
        if number < SAMPLE:
            sample.append(item)
        elif (place := draw.randrange(number + 1)) < SAMPLE:
            sample[place] = item
    return sample


def _sample(path: Path, layout: Format) -> _Table:
    rows = (record for _, record in records(path, layout))
    first = next((row for row in rows if isinstance(row, list | dict)), None)
    if first is None:
        raise DataError(
            f"{path} holds no row that can be read.",
            "A row is two columns of text, or a text and a label.",
            "Check the file, or name another one.",
        )
    if isinstance(first, dict):
        objects = [first, *(row for row in _drawn(rows) if isinstance(row, dict))]
        cells_of = (item for row in objects for item in row.items())
        names = tuple(dict.fromkeys(k for k, v in cells_of if not isinstance(v, dict | list)))
        cells = [tuple(_cell(row.get(name)) for name in names) for row in objects]
        return _wide(path, _Table(names, cells))
    others = [tuple(map(_cell, row)) for row in _drawn(rows) if isinstance(row, list)]
    head = tuple(map(_cell, first))
    if layout != "jsonl" and _is_header(head, others):
        return _wide(path, _Table(head, others))
    return _wide(path, _Table(None, [head, *others]))


def _wide(path: Path, table: _Table) -> _Table:
    if not table.rows or table.width < 2:
        raise DataError(
            f"{path} has no two columns.",
            "A translator needs a text and its translation, a classifier a text and its label.",
            "Separate the columns by tabs (.tsv), commas (.csv), or write JSON lines (.jsonl).",
        )
    return table


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _is_header(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> bool:
    """Return whether the first row names the columns: words that mean so, or no value of theirs."""
    if not all(map(str.strip, head[1:])) or not rows:  # pandas leaves its index without a name
        return False
    meant = {*SOURCES, *TARGETS, *TEXTS, *LABELS, "id"}
    plain = [cell.strip().casefold() for cell in head]
    if any(cell in meant or languages.of_name(cell) for cell in plain):
        return True
    if len(set(head)) < len(head) or any(len(cell.split()) > 3 for cell in head):
        return False
    table = _Table(None, rows)
    few = [i for i in range(len(head)) if is_label(table.column(i))]
    return any(head[i] not in table.column(i) and not _is_number(head[i]) for i in few)


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").replace(".", "", 1).isdecimal()


def is_label(values: list[str]) -> bool:
    """Return whether the values of a column are labels: few, short, and on several rows each."""
    distinct = set(values)
    most = min(MAX_LABELS, len(values) // ROWS_PER_LABEL)
    return 2 <= len(distinct) <= most and max(map(len, distinct)) <= LABEL_LENGTH


def _kind(table: _Table) -> Kind:
    has_label = any(is_label(table.column(i)) for i in range(table.width))
    return "classifier" if has_label else "translator"


def _named(table: _Table, path: Path, columns: Sequence[str]) -> tuple[int, int]:
    """Return the places of columns that the user named, by name or by number from 1."""
    places = []
    for column in columns:
        if table.names and column in table.names:
            places.append(table.names.index(column))
        elif column.isdecimal() and 1 <= int(column) <= table.width:
            places.append(int(column) - 1)
        else:
            raise DataError(
                f"{path} has no column {column!r}.",
                f"Its columns are {', '.join(table.name(i) for i in range(table.width))}.",
                "Name two of them, by name or by number from 1: --columns A,B.",
            )
    if len(places) != 2 or places[0] == places[1]:
        raise SettingsError(
            f"{len(places)} columns are named: {', '.join(columns)}.",
            "Two columns are read: a text and its translation, or a text and its label.",
            "For example: --columns 1,2.",
        )
    return places[0], places[1]


def _guessed(table: _Table, kind: Kind, path: Path) -> tuple[int, int]:
    """Return the places of two columns: by their names first, by what they hold second."""
    places = range(table.width)
    plain = [table.name(i).strip().casefold() for i in places]
    length = [sum(map(len, table.column(i))) for i in places]
    if kind == "classifier":
        labels = [i for i in places if is_label(table.column(i))]
        if not labels:
            raise DataError(
                f"No column of {path} looks like a label.",
                f"A label is one of 2 to {MAX_LABELS} short values, each on several rows.",
                "Name the columns: --columns TEXT,LABEL (names, or numbers from 1).",
            )
        known = [i for i in labels if plain[i] in LABELS]
        label = (known or sorted(labels, key=lambda i: length[i]))[0]
        texts = [i for i in places if i != label]
        named = [i for i in texts if plain[i] in TEXTS]
        return (named or sorted(texts, key=lambda i: -length[i]))[0], label
    sources = [i for i in places if plain[i] in SOURCES]
    targets = [i for i in places if plain[i] in TARGETS]
    if sources and targets:
        return sources[0], targets[0]
    tongues = [i for i in places if languages.of_name(plain[i])]
    if len(tongues) < 2:
        tongues = sorted(sorted(places, key=lambda i: -length[i])[:2])
    return tongues[0], tongues[1]


def _languages(
    kind: Kind, names: Sequence[str], samples: Sequence[Sequence[str]]
) -> tuple[str, str]:
    first, second = (
        languages.of_name(name) or languages.guess(sample)
        for name, sample in zip(names, samples, strict=True)
    )
    return (first, first) if kind == "classifier" else (first, second)


# Validation


def read_rows(own: Own, skip_bad: bool) -> tuple[list[Row], str]:
    """Return all rows of the two columns, and a report of bad ones that were skipped."""
    corpus = Corpus(own.files, skip_bad=skip_bad)
    rows = list(corpus)
    return rows, str(corpus.report) if corpus.report.bad else ""


def hold_out(rows: Sequence[R], count: int, seed: int, text_sides: int) -> tuple[list[R], list[R]]:
    """Draw about `count` rows to validate on; return the rows to train on, then these.

    No text to validate on is trained on, on any side: rows with the same first text are held out
    together, and a row that has a held-out text on its second side is in neither part. Texts that
    stand in one row are drawn first.
    """
    places: dict[Any, list[int]] = {}
    for i, row in enumerate(rows):
        places.setdefault(row[0], []).append(i)
    groups = list(places.values())
    Random(seed).shuffle(groups)
    groups.sort(key=len)  # stable: texts of one row first, in the order drawn
    chosen: set[int] = set()
    for group in groups[:-1]:  # one text at least is trained on
        if len(chosen) >= count:
            break
        chosen.update(group)
    held_out = [row for i, row in enumerate(rows) if i in chosen]
    seen = {row[1] for row in held_out} if text_sides == 2 else set()
    kept = (row for i, row in enumerate(rows) if i not in chosen)
    return [row for row in kept if text_sides != 2 or row[1] not in seen], held_out
