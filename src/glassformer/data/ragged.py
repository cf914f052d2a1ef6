"""Rows of different lengths in one flat array, in memory or mapped from a file.

A million tokenised sentences are two arrays: nothing is read until it is asked for, and no Python
object is kept per sentence.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int] | NDArray[Any]


class Ragged:
    """Row i is flat[offsets[i]:offsets[i + 1]]."""

    def __init__(self, flat: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self.flat, self.offsets = flat, offsets

    @classmethod
    def of(cls, rows: Sequence[Ids]) -> "Ragged":
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        flat = np.concatenate([np.empty(0, np.int32), *rows], dtype=np.int32, casting="unsafe")
        return cls(flat, offsets)

    @classmethod
    def joined(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """The rows of all of them, in memory."""
        flat = np.concatenate([part.flat for part in parts])
        lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
        return cls(flat, lengths.cumsum())

    @classmethod
    def open(cls, path: Path) -> "Ragged":
        """Mapped, not read; what `RaggedWriter` wrote."""
        offsets = np.load(path.with_suffix(".offsets.npy"))
        dtype = path.suffix.removeprefix(".")
        if not offsets[-1]:  # an empty file cannot be mapped
            return cls(np.empty(0, dtype), offsets)
        return cls(np.memmap(path, dtype, mode="r"), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


class RaggedWriter:
    """Appends rows to a file named for its dtype (`source.uint16`), its offsets beside it."""

    def __init__(self, path: Path) -> None:
        self.path, self.dtype = path, path.suffix.removeprefix(".")
        self._file = path.open("wb")
        self._lengths: list[NDArray[np.int64]] = []

    def append(self, rows: Iterable[Sequence[int]]) -> None:
        rows = list(rows)
        lengths = np.array([len(row) for row in rows], np.int64)
        flat = np.fromiter((x for row in rows for x in row), self.dtype, int(lengths.sum()))
        self._file.write(flat.tobytes())
        self._lengths.append(lengths)

    def close(self) -> None:
        self._file.close()
        offsets = np.concatenate([np.zeros(1, np.int64), *self._lengths]).cumsum()
        np.save(self.path.with_suffix(".offsets.npy"), offsets)
