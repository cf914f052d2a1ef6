"""A file of many lines, translated in parts by as many processes as there are.

    parts = parts_of(source)                                # ranges of lines
    for part in missing(parts, folder):                     # in any order, on any machine
        translate_part(translator, source, part, folder)
    join(parts, folder, target)                             # the lines in their order

A part is one file of the output. It appears whole or not at all, so that work that was stopped goes
on with the parts that are missing, and a part that two processes translate is the same file twice:
a line's translation has the same bits in any batch and on any number of threads.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.pipeline.translator import Translator

LINES = 10_000  # of a part: minutes of work, so that a process that dies loses little
NO_BREAKS = str.maketrans("\r\n", "  ")


@dataclass(frozen=True)
class Part:
    """The bytes of a file from `begin` up to but without `end`: whole lines."""

    number: int
    begin: int
    end: int

    def path(self, folder: Path) -> Path:
        return folder / f"part-{self.number:06}.txt"


def parts_of(source: Path, lines: int = LINES) -> list[Part]:
    """Return the parts of a file of UTF-8, of `lines` lines each; the last one may be shorter."""
    if lines < 1:
        raise DataError(f"A part of {lines} lines is none.", "It has at least one.", "Give more.")
    ends = [0]
    with source.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number % lines == 1 or lines == 1:
                ends.append(ends[-1])
            ends[-1] += len(line)
    return [Part(n, a, b) for n, (a, b) in enumerate(pairwise(ends))]


def missing(parts: Iterable[Part], folder: Path) -> list[Part]:
    """Return the parts whose file is not in `folder` yet."""
    return [part for part in parts if not part.path(folder).exists()]


def translate_part(
    translator: Translator, source: Path, part: Part, folder: Path, **search: Any
) -> int:
    """Translate a part line by line, write its file, and return the number of its lines.

    `search` are arguments of `Translator.translate`.
    """
    with source.open("rb") as file:
        file.seek(part.begin)
        content = file.read(part.end - part.begin)
    if len(content) != part.end - part.begin:
        raise DataError(
            f"{source} ends before part {part.number}.",
            f"It has fewer than {part.end:,} bytes: it is shorter than when it was divided.",
            "Divide it again, and translate into a new folder.",
        )
    texts = content.decode("utf-8").removesuffix("\n").split("\n")
    found = translator.translate([text.removesuffix("\r") for text in texts], **search)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{part.number:06}.{os.uname().nodename}.{os.getpid()}"
    with partial.open("w", encoding="utf-8", newline="\n") as written:
        written.writelines(f"{line.translate(NO_BREAKS)}\n" for line in found)
        written.flush()
        os.fsync(written.fileno())
    partial.replace(part.path(folder))
    return len(found)


def join(parts: Sequence[Part], folder: Path, target: Path) -> None:
    """Write the translations of all parts to one file, in the order of the lines."""
    if absent := missing(parts, folder):
        raise DataError(
            f"{len(absent):,} of {len(parts):,} parts are not translated yet.",
            f"The first is {absent[0].path(folder).name}.",
            "Run the translation again: it goes on with the parts that are missing.",
        )
    partial = target.with_name(f".{target.name}.partial")
    with partial.open("wb") as written:
        for part in parts:
            with part.path(folder).open("rb") as file:
                shutil.copyfileobj(file, written)
    partial.replace(target)
