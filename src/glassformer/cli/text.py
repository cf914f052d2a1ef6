"""Lines in, lines out: shared by translate, classify and generate.

Lines are answered in order as they arrive, and each answer is written immediately, for pipes. A
line ends at a newline only. An error names its line, and is raised after the lines before it have
been answered.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from gzip import GzipFile
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, cast

from glassformer.data.corpus import arriving_lines, opened, readable
from glassformer.errors import DataError, GlassformerError, InputError, SettingsError

if TYPE_CHECKING:
    from glassformer.pipeline import Translation

TURN = 256  # lines per batch, at most
ARRIVAL = 1 << 16  # bytes per read; more waiting lines make larger batches
EXPENSIVE = 5_000  # tokens of all hypotheses of an answer: about 10 s with a small translator
NO_BREAKS = str.maketrans("\r\n", "  ")

Answer = Callable[[list[str]], list[list[str]]]  # the output lines of each line


@dataclass(frozen=True)
class Line:
    text: str
    place: str  # its name in errors; empty for a single line


Raw = tuple[bytes, str]  # an undecoded line and its place


def check_input(texts: list[str] | None, file: Path | None) -> None:
    if texts and file:
        raise SettingsError(
            f"Texts are given, and --file {file} as well.",
            "A command reads one of them.",
            "Leave one of them out.",
        )


def warn_of_cost(min_length: int, width: int) -> None:
    """Print the least cost of an expensive search before it starts."""
    if min_length * width >= EXPENSIVE:
        print(
            f"note: each answer takes at least {min_length:,} steps of {width:,} hypotheses, which "
            "may take minutes a line; lower --min-length, --beam or --n-best.",
            file=sys.stderr,
        )


def lines(texts: list[str] | None, file: Path | None, together: int = TURN) -> Iterator[list[Line]]:
    """Yield the arguments, or lines of a file or of standard input in chunks as they arrive."""
    if texts:
        arrivals: Iterable[list[Raw]] = [_of_arguments(texts)]
    else:
        arrivals = _of_file(file) if file else _of_standard_input()
    for arrived in arrivals:
        for start in range(0, len(arrived), together):
            yield from _decoded(arrived[start : start + together])


def _decoded(raw_lines: list[Raw]) -> Iterator[list[Line]]:
    found: list[Line] = []
    for raw, place in raw_lines:
        try:
            found.append(Line(raw.removesuffix(b"\r").decode(), place))
        except UnicodeDecodeError as error:
            yield found
            raise DataError(
                f"{_begun(place or 'the text')} is not UTF-8, from its byte {error.start + 1} on.",
                "Text is read and written in UTF-8.",
                "Convert it first, for example: iconv -f latin1 -t utf-8.",
            ) from None
    yield found


def _of_arguments(texts: list[str]) -> list[Raw]:
    """Return the original bytes of the arguments, which may be invalid UTF-8."""
    return [
        (raw, f"text {number}" if len(texts) > 1 else "")
        for number, text in enumerate(texts, 1)
        for raw in text.encode("utf-8", "surrogateescape").removesuffix(b"\n").split(b"\n")
    ]


def _of_file(path: Path) -> Iterator[list[Raw]]:
    with opened(path) as stream:
        yield from _of_stream(stream, str(path))


def _of_standard_input() -> Iterator[list[Raw]]:
    if sys.stdin is None:
        raise SettingsError(
            "There is no text.",
            "None is given, and standard input is closed.",
            "Give texts as arguments, or a file with --file.",
        )
    if sys.stdin.isatty():
        hint = "A line of text, then Enter; Ctrl-D ends. Texts can also be arguments, --file F or"
        print(f"{hint} < F; see --help.", file=sys.stderr)
    with readable(Path("standard input")):
        yield from _of_stream(cast(BufferedReader, sys.stdin.buffer), "standard input")


def _of_stream(stream: BufferedReader | GzipFile, name: str) -> Iterator[list[Raw]]:
    """Yield the complete lines that have arrived: a slow writer gets its answers line by line."""
    number = 0
    for whole in arriving_lines(stream, name, ARRIVAL):
        yield [(raw, f"line {number + i} of {name}") for i, raw in enumerate(whole, 1)]
        number += len(whole)


def answer_lines(chunks: Iterable[list[Line]], answer: Answer, too_long: str) -> None:
    """Print the output of `answer` for the lines; `too_long` is the remedy for a line too long."""
    for chunk in chunks:
        for answers in _answers(chunk, answer, too_long):
            _write("".join(f"{one.translate(NO_BREAKS)}\n" for lines in answers for one in lines))


def _answers(chunk: list[Line], answer: Answer, too_long: str) -> Iterator[list[list[str]]]:
    """Answer a chunk; if a line is refused, answer those before it, by halves, then raise."""
    if not chunk:
        return
    try:
        answers = answer([line.text for line in chunk])
    except (DataError, InputError) as error:
        if len(chunk) == 1:
            raise _located(error, chunk[0], too_long) from error
    else:
        yield answers
        return
    half = len(chunk) // 2
    yield from _answers(chunk[:half], answer, too_long)
    yield from _answers(chunk[half:], answer, too_long)


def ranked(index: int, answers: "list[Translation]") -> list[str]:
    """Format several answers to one line as an n-best list of Moses."""
    return [f"{index} ||| {answer.text} ||| {answer.score:.4f}" for answer in answers]


def stream_lines(
    chunks: Iterable[list[Line]], pieces: Callable[[str], Iterator[str]], too_long: str
) -> None:
    """Print the pieces of the answer to each line as they are decoded."""
    for line in (line for chunk in chunks for line in chunk):
        try:
            for piece in pieces(line.text):
                _write(piece.translate(NO_BREAKS))
        except (DataError, InputError) as error:
            raise _located(error, line, too_long) from error
        _write("\n")


def _located(error: GlassformerError, line: Line, too_long: str) -> GlassformerError:
    what = error.what
    if line.place:
        what = f"{_begun(line.place)}: {what[:1].lower()}{what[1:]}"
    remedy = too_long if isinstance(error, DataError) else error.remedy
    return type(error)(what, error.why, remedy)


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def _write(text: str) -> None:
    """Write to standard output, always in UTF-8."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)
    sys.stdout.flush()
