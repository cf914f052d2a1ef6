"""The file model.bin of CTranslate2: variables with names, shapes and types, read with checks.

version, spec name, revision, variables × (name, rank, shape, type, size, values),
aliases × (name, of which variable); numbers are little-endian, texts end with a zero
"""

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from glassformer.interop.foreign import Array, Shape, damaged, refused

VERSION = 6  # the first with types and aliases in this form
TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)  # by number; bfloat16 is the next
MAX_VARIABLES = 100_000
MAX_RANK = 4


@dataclass(frozen=True)
class Variable:
    shape: Shape
    dtype: np.dtype
    offset: int  # bytes from the beginning of the file


class CTranslate2File:
    """Variables of a model.bin by name, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        with path.open("rb") as self._file:
            if (version := self._number("I")) != VERSION:
                raise refused(
                    f"{path.name} is of version {version} of CTranslate2's format.",
                    f"Glassformer reads version {VERSION}, which CTranslate2 writes since 2.15.",
                    "Convert the model again with a current ctranslate2.",
                )
            self.spec = self._text()
            self.revision = self._number("I")
            self.variables: dict[str, Variable] = {}
            for _ in range(self._count()):
                self._read_variable()
            aliases = [(self._text(), self._text()) for _ in range(self._count())]
            if self._file.tell() != self.size:
                raise damaged(path, "it goes on behind its end")
        for name, other in aliases:
            if other not in self.variables:
                raise damaged(path, f"{name[:60]!r} is another name of nothing")
            self.variables[name] = self.variables[other]
        self.aliases = dict(aliases)

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    def read(self, name: str) -> Array:
        """Return the values of a variable."""
        one = self.variables[name]
        with self.path.open("rb") as file:
            file.seek(one.offset)
            content = file.read(prod(one.shape) * one.dtype.itemsize)
        return np.frombuffer(content, one.dtype).reshape(one.shape)

    def number(self, name: str, default: float) -> float:
        """Return a variable that is one number, such as the number of heads."""
        if name not in self.variables:
            return default
        if self.variables[name].shape != ():
            raise damaged(self.path, f"{name} is no number")
        return float(self.read(name))

    def _read_variable(self) -> None:
        name, rank = self._text(), self._number("B")
        if rank > MAX_RANK:
            raise damaged(self.path, f"{name[:60]!r} has {rank} axes")
        shape = tuple(self._number("I") for _ in range(rank))
        kind, n_bytes = self._number("B"), self._number("I")
        if kind >= len(TYPES):
            raise refused(
                f"{self.path.name}: {name[:60]} is of type {kind}.",
                f"Glassformer reads the types 0 to {len(TYPES) - 1}: float32, int8, … float16.",
                "Convert the model with --quantization int8 or float32.",
            )
        dtype, offset = np.dtype(TYPES[kind]), self._file.tell()
        if n_bytes != prod(shape) * dtype.itemsize or offset + n_bytes > self.size:
            raise damaged(self.path, f"{name[:60]!r} of {shape} has {n_bytes:,} bytes")
        self.variables[name] = Variable(shape, dtype, offset)
        self._file.seek(offset + n_bytes)

    def _count(self) -> int:
        n = self._number("I")
        if n > MAX_VARIABLES:
            raise damaged(self.path, f"it names {n:,} variables")
        return n

    def _number(self, kind: str) -> int:
        size = struct.calcsize(f"<{kind}")
        (value,) = struct.unpack(f"<{kind}", self._bytes(size))
        return int(value)

    def _text(self) -> str:
        return self._bytes(self._number("H")).rstrip(b"\0").decode("utf-8", "replace")

    def _bytes(self, n: int) -> bytes:
        content = self._file.read(n)
        if len(content) < n:
            raise damaged(self.path, "it is cut off")
        return content
