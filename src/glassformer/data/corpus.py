"""Text in: parallel files, TSV, CSV and JSON lines, gzipped or not, one row at a time.

No row is lost in silence. `Corpus` stops at bad rows and names them, or is told to skip them and
counts them. Nothing is normalised: a row is what the file holds.
"""

import codecs
import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from gzip import GzipFile
from io import BufferedReader
from itertools import islice, zip_longest
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from glassformer.data.tables import Bad, Format, bare, records_of
from glassformer.errors import DataError, did_you_mean

SUFFIXES: dict[str, Format] = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl"}
SHOWN = 3  # examples of each kind of bad row
AT_ONCE = 1 << 14  # bytes that are read at a time: less than a line may have
MAX_LINE = 1 << 20  # bytes of a line: about 170,000 words, a long novel
MAX_GROWTH = 100  # times that gzipped text may grow: prose grows 3 to 5 times, zeros 1,032 times
FREE_GROWTH = 1 << 24  # bytes that a gzipped file may unpack to, however small it is
PACKED = {  # first bytes: what it is, and how to unpack it
    b"\x28\xb5\x2f\xfd": ("packed by Zstandard", "zstd -d"),
    b"BZh": ("packed by bzip2", "bunzip2"),
    b"\xfd7zXZ": ("packed by xz", "unxz"),
    b"PK\x03\x04": ("a ZIP archive or a spreadsheet", "unzip, or save the sheet as CSV"),
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Row = tuple[str, ...]


@dataclass(frozen=True)
class TextFiles:
    """Where a text lies: plain files, a column each, or some columns of one TSV, CSV or JSONL file.

    A column has a name (in the header, or a key of JSON) or a number, from 1 as `cut -f` counts.
    A TSV or CSV file has a header if a column is named. `where` names a column and the expression
    that it matches in the rows to be read; `start` and `stop` slice these. A row of more cells than
    `width`, or than the header has, is bad: a delimiter within its text has moved the others.
    """

    paths: tuple[Path, ...]
    columns: tuple[str | int, ...] = ()
    format: Format | None = None  # None: as the first file is called
    start: int = 0
    stop: int | None = None
    where: tuple[str | int, str] | None = None
    width: int | None = None  # None: any

    def __post_init__(self) -> None:
        if self.layout == "lines":
            fits = bool(self.paths) and not self.columns and not self.where
        else:
            numbers = [column for column in self.columns if isinstance(column, int)]
            fits = len(self.paths) == 1 and bool(self.columns) and min(numbers, default=1) >= 1
        if not fits:
            raise DataError(
                f"No {self.layout} to read in {self} by columns {list(self.columns)}.",
                "Plain files are a column each; others are read alone, by name or number from 1.",
                "Name text.en and text.fr, or pairs.tsv with columns 1 and 2.",
            )

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths)) or "no file"

    @property
    def layout(self) -> Format:
        return self.format or (layout_of(self.paths[0]) if self.paths else "lines")


def layout_of(path: Path) -> Format:
    """Return the format that a file's name tells."""
    return SUFFIXES.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "lines")


def own_files(paths: Sequence[str | Path], columns: Sequence[str]) -> TextFiles:
    """Files as a user names them; a column that is a number is one."""
    by_name_or_number = tuple(int(c) if c.isdecimal() else c for c in columns)
    return TextFiles(tuple(map(Path, paths)), by_name_or_number)


@dataclass
class Report:
    """Counts of one pass: all rows, bad ones by reason, and the first of each reason."""

    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    shown: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path, line: int, bad: Bad) -> None:
        self.bad[bad.reason] += bad.lines
        self.rows += bad.lines - 1
        self.shown[bad.reason] += 1
        if self.shown[bad.reason] <= SHOWN:
            parts = f"{path}:{line}", bad.reason, bad.detail
            self.examples.append(": ".join(filter(None, parts)))

    def __str__(self) -> str:
        counts = ", ".join(f"{reason}: {n:,}" for reason, n in self.bad.most_common())
        return f"{self.rows:,} rows read, {self.bad.total():,} bad" + (counts and f" ({counts})")


@dataclass
class Corpus:
    """The rows of `files`, read anew by each iteration; `report` tells of the latest.

    With bad rows it gives what stands before the first, reads on to count them all, and raises;
    with `skip_bad` it gives the good rows and leaves the rest to `report`. A row is bad that cannot
    be read, has an empty column, one of more than `max_words` words, or a last one not in `labels`.
    """

    files: TextFiles
    skip_bad: bool = False
    max_words: int | None = None
    labels: Collection[str] | None = None
    report: Report = field(default_factory=Report, init=False)

    def __iter__(self) -> Iterator[Row]:
        self.report = report = Report()
        paths = self.files.paths
        for line, row in islice(_rows(self.files), self.files.start, self.files.stop):
            report.rows += 1
            if not isinstance(row, Bad):
                row = self._checked(row)
            if isinstance(row, Bad):
                report.add(paths[min(row.column, len(paths) - 1)], line, row)
            elif self.skip_bad or not report.bad:
                yield row
        if (report.bad and not self.skip_bad) or report.rows == report.bad.total():
            raise DataError(
                f"{self.files}: {report}.",
                "\n        ".join(report.examples) or "A text without a row is none.",
                _remedy(report),
            )

    def _checked(self, row: Row) -> Row | Bad:
        for column, text in enumerate(row):
            if not text or text.isspace():
                return Bad("empty", column=column)
            try:
                text.encode()
            except UnicodeEncodeError as error:  # what `_lines` made of such bytes
                return Bad("broken UTF-8", f"at character {error.start + 1}", column)
            if self.max_words is not None and (words := len(text.split())) > self.max_words:
                return Bad("too long", f"{words} words, the limit is {self.max_words}", column)
        if self.labels is not None and row[-1] not in self.labels:
            detail = f"{shown(row[-1])} is not in {shown(sorted(self.labels))}"
            return Bad("unknown label", detail, len(row) - 1)
        return row


def _remedy(report: Report) -> str:
    if not report.rows:
        return "Name a file that holds text."
    convert = "Convert it: iconv -f windows-1252 -t utf-8 FILE (or the encoding that it has). "
    leave_out = "Correct the text, or leave out its bad rows: --skip-bad (skip_bad=True)."
    return (convert if report.bad["broken UTF-8"] else "") + leave_out


def _rows(files: TextFiles) -> Iterator[tuple[int, Row | Bad]]:
    """Each row with the number of its first line."""
    if files.layout == "lines":
        return _parallel(files.paths)
    found = records(files.paths[0], files.layout)
    columns = (*files.columns, *files.where[:1]) if files.where else files.columns
    width = files.width
    if files.layout != "jsonl" and any(isinstance(column, str) for column in columns):
        header: Any = next(found, (1, []))[1]
        columns, width = _by_number(files, columns, header), len(header)
    rows = ((number, _pick(record, columns, width)) for number, record in found)
    return _matching(rows, re.compile(files.where[1])) if files.where else rows


def records(path: Path, layout: Format) -> Iterator[tuple[int, Any]]:
    """Yield each record of a table, whole, with its line: a list, a dict of JSON, or a `Bad`."""
    return records_of(_lines(path), layout, str(path))


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a plain file without their ends."""
    return map(bare, _lines(path))


def _matching(
    rows: Iterator[tuple[int, Row | Bad]], pattern: re.Pattern[str]
) -> Iterator[tuple[int, Row | Bad]]:
    """Yield rows whose last column matches, without it, and bad rows."""
    for number, row in rows:
        if isinstance(row, Bad):
            yield number, row
        elif pattern.fullmatch(row[-1]):
            yield number, row[:-1]


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file without their newlines.

    Bytes that are not UTF-8 become lone surrogates: they spoil their own row, not the whole file.
    """
    with opened(path) as stream:
        _refuse_binary(path, stream)
        for lines in arriving_lines(stream, str(path), AT_ONCE):
            for line in lines:
                yield line.decode(errors="surrogateescape")


def arriving_lines(
    stream: BufferedReader | GzipFile, name: str, at_once: int
) -> Iterator[list[bytes]]:
    r"""Yield whole lines without their newlines, as many at a time as have come.

    A line ends at \n and at nothing else that Unicode has. The time is linear in the bytes, and no
    more than one line and `at_once` bytes are held. `name` is what an error calls the stream.
    """
    number, begun, size = 1, list[bytes](), 0  # of the line that has not ended
    while arrived := stream.read1(at_once):
        *lines, rest = arrived.split(b"\n")
        size += len(lines[0] if lines else rest)
        if size > MAX_LINE:
            raise DataError(
                f"Line {number:,} of {name} has more than {MAX_LINE:,} bytes.",
                "A line is one text. One so long is a file without line breaks, or not text.",
                "Break it into lines, for example: fold -s -w 1000.",
            )
        if lines:
            lines[0] = _joined(begun, lines[0], is_first=number == 1)
            yield lines
            number, begun, size = number + len(lines), [], len(rest)
        begun.append(rest)
    if last := _joined(begun, b"", is_first=number == 1):
        yield [last]


def _joined(begun: list[bytes], end: bytes, is_first: bool) -> bytes:
    line = b"".join((*begun, end))
    return line.removeprefix(BYTE_ORDER_MARK) if is_first else line


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader | GzipFile]:
    """Open a file for `arriving_lines`, unpacked if it is gzipped."""
    with readable(path), _Packed(path.open("rb", buffering=0)) as file:
        is_packed = file.peek(2).startswith(b"\x1f\x8b")
        yield _Unpacked(path, file) if is_packed else file


class _Packed(BufferedReader):
    """A file that counts the bytes taken from it, which a pipe cannot tell otherwise."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        block = super().read(size)
        self.taken += len(block)
        return block


class _Unpacked(GzipFile):
    """A gzipped file that is refused where it grows more than text does."""

    def __init__(self, path: Path, packed: _Packed) -> None:
        super().__init__(fileobj=packed, mode="rb")
        self._path, self._packed, self._given, self._lines = path, packed, 0, 1

    def read1(self, size: int = -1) -> bytes:
        block = super().read1(size)
        self._given += len(block)
        if self._given > max(FREE_GROWTH, MAX_GROWTH * self._packed.taken):
            raise DataError(
                f"{self._path} unpacks to more than {MAX_GROWTH} times its size: "
                f"{self._packed.taken:,} bytes to {self._given:,}, at line {self._lines:,}.",
                "Text grows 3 to 5 times. This file would fill the memory or never end.",
                "If it is what you mean, unpack it first: gzip -d.",
            )
        self._lines += block.count(b"\n")
        return block


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Why a file cannot be read, in one block."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.",
            "A text is a file that can be opened, and unpacked to its end if it is gzipped.",
            "Check its name; if it is damaged, fetch or make it again.",
        ) from None


def _refuse_binary(path: Path, stream: GzipFile | BufferedReader) -> None:
    """Refuse what is packed, not text, or has another end of line.

    NUL may stand in a text, and bytes may be broken, but both at once are no text in UTF-8.
    """
    start = stream.peek(8192)
    for magic, (what, command) in PACKED.items():
        if start.startswith(magic):
            raise DataError(
                f"{path} is {what}.",
                "Text is read as it is, or packed by gzip.",
                f"Unpack it first: {command}.",
            )
    if start.count(b"\r") > 1 and b"\n" not in start:
        raise DataError(
            f"The lines of {path} end with CR alone.",
            "A line ends with LF, or with CR and LF; this file would be one line.",
            r"Convert it: tr '\r' '\n' < FILE > NEW.",
        )
    if b"\0" not in start:
        return
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is not text in UTF-8.",
            "It begins with NUL bytes and with bytes that UTF-8 never has.",
            "Unpack or convert it first, for example: iconv -f utf-16 -t utf-8.",
        ) from None


def _parallel(paths: tuple[Path, ...]) -> Iterator[tuple[int, Row | Bad]]:
    for number, lines in enumerate(zip_longest(*map(_lines, paths)), 1):
        if None in lines:
            longer = next(i for i, line in enumerate(lines) if line is not None)
            detail = f"{paths[lines.index(None)]} has no such line"
            yield number, Bad("unequal line counts", detail, longer)
        else:
            yield number, tuple(map(bare, lines))


def _by_number(files: TextFiles, columns: tuple[str | int, ...], header: Any) -> tuple[int, ...]:
    names = [] if isinstance(header, Bad) else header
    twice = [column for column in columns if names.count(column) > 1]
    if twice:
        raise DataError(
            f"{files} has {names.count(twice[0])} columns called {twice[0]!r}.",
            "Which of them is meant is not known.",
            f"Rename one, or give the column's number: {names.index(twice[0]) + 1}.",
        )
    what = f"column in the first line of {files}"
    return tuple(
        c if isinstance(c, int) else names.index(known(what, c, names)) + 1 for c in columns
    )


def known(what: str, name: str, valid: Collection[str]) -> str:
    """`name`, if it is one of the valid ones; what is near it, if not."""
    if name not in valid:
        raise DataError(
            f"There is no {what} called {name!r}.",
            f"There is {', '.join(valid) or 'none at all'}.",
            did_you_mean(name, valid, "Take one of these." if valid else "Is it the right file?"),
        )
    return name


def _pick(record: Any, columns: tuple[str | int, ...], width: int | None) -> Row | Bad:
    if width is not None and isinstance(record, list) and any(record[width:]):
        return Bad("too many columns", f"{len(record)} instead of {width}")
    row = []
    for column in columns:
        match record, column:
            case Bad(), _:
                return record
            case dict(), str():
                cell = record.get(column)
            case list() | dict(), int():
                cells = list(record.values()) if isinstance(record, dict) else record
                cell = cells[column - 1] if column <= len(cells) else None
            case _:
                cell = None
        if cell is None:
            return Bad("missing column", repr(column))
        if isinstance(cell, dict | list):
            return Bad("not text", f"column {column!r}")
        row.append(cell if isinstance(cell, str) else json.dumps(cell))  # 1, 0.5, true
    return tuple(row)
