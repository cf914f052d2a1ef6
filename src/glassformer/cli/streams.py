"""Errors of standard output (closed, full disk, pipe without a reader), without a traceback."""

import os
import signal
import sys
from errno import EPIPE
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError


class OutputError(GlassformerError):
    """Standard output that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"Standard output cannot be written: {error.strerror}.",
            "It is closed, or its disk is full.",
            "Free some space, or send the output to another file.",
        )
        self.reader_is_gone = error.errno == EPIPE


class _StandardOutput(FileIO):
    """The file of standard output, with errors that libraries do not catch as an OSError."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from None


def open_streams() -> None:
    """Report errors of standard output as `OutputError`; replace streams that are closed.

    A file that is opened later must not get the number of a closed stream: it would receive what
    is printed. A terminal stays as it is.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free number, which is this one
    if sys.stderr is None:  # print() would write errors to standard output
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (open until the process ends)
    given = sys.stdout
    if given is not sys.__stdout__ or (given is not None and given.isatty()):
        return
    file = BufferedWriter(_StandardOutput(1, "w", closefd=False))
    if isinstance(given, TextIOWrapper):
        encoding, errors, at_once = given.encoding, given.errors, given.write_through
        sys.stdout = TextIOWrapper(file, encoding, errors, write_through=at_once)
    else:
        sys.stdout = TextIOWrapper(file, "utf-8")


def end_as_unix_tools_do() -> None:
    """End silently by SIGPIPE, since the reader is gone; return where there is no such signal."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)


def drop_output() -> None:
    """Discard buffered output, which the interpreter would write at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
