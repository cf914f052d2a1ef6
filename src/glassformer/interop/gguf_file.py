"""The file format GGUF: values by key and tensors. `gguf` dequantises what was checked here.

magic, version, number of tensors, number of values; (key, type, value) each;
(name, rank, shape, type, offset) of each tensor; from the next multiple of the alignment on
the tensors. Numbers are little-endian. A shape lists the width of a row first.
"""

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import MissingPackageError
from glassformer.interop.foreign import Array, Shape, damaged, refused

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
TEXT, LIST = 8, 9  # types of values
MAX_TENSORS, MAX_VALUES, MAX_ITEMS = 100_000, 10_000, 10_000_000
MAX_RANK = 4
# By number: the name, the values of a block and its bytes.
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20)}
TYPES[8] = ("Q8_0", 32, 34)


@dataclass(frozen=True)
class Tensor:
    shape: Shape  # rows first
    kind: int
    offset: int  # bytes from the beginning of the file
    n_bytes: int


class GGUFFile:
    """Values and tensors of a GGUF file; a tensor is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        with path.open("rb") as self._file:
            if self._bytes(4) != MAGIC:
                raise damaged(path, "it does not begin with GGUF")
            if (version := self._number("I")) not in VERSIONS:
                raise refused(f"{path.name} is GGUF of version {version}.", f"Known: {VERSIONS}.")
            n_tensors, n_values = self._count(MAX_TENSORS), self._count(MAX_VALUES)
            self.values: dict[str, Any] = {}
            for _ in range(n_values):
                key = self._text()
                self.values[key] = self._value(self._number("I"))
            places = [self._place() for _ in range(n_tensors)]
            start = self._file.tell()
        alignment = self.values.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
            raise damaged(path, f"its alignment is {str(alignment)[:40]}")
        start = -(-start // alignment) * alignment
        self.tensors = {place[0]: self._tensor(start, *place) for place in places}
        if len(self.tensors) != n_tensors:
            raise damaged(path, "two tensors have one name")

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    def read(self, name: str) -> NDArray[np.float32]:
        """Return a tensor in fp32."""
        try:
            from gguf import GGMLQuantizationType, dequantize
        except ImportError:
            raise MissingPackageError("gguf", "A model in GGUF", "interop") from None
        tensor = self.tensors[name]
        with self.path.open("rb") as file:
            file.seek(tensor.offset)
            content = np.frombuffer(file.read(tensor.n_bytes), np.uint8)
        kind = GGMLQuantizationType(tensor.kind)
        if TYPES[tensor.kind][1] == 1:
            content = content.view({4: np.float32, 2: np.float16}[TYPES[tensor.kind][2]])
            return content.astype(np.float32).reshape(tensor.shape)
        values: Array = dequantize(content.reshape(*tensor.shape[:-1], -1), kind)
        return values.reshape(tensor.shape)

    def _place(self) -> tuple[str, Shape, int, int]:
        name, rank = self._text(), self._number("I")
        if not 1 <= rank <= MAX_RANK:
            raise damaged(self.path, f"{name[:60]!r} has {rank} axes")
        shape = tuple(self._number("Q") for _ in range(rank))
        return name, shape[::-1], self._number("I"), self._number("Q")

    def _tensor(self, start: int, name: str, shape: Shape, kind: int, offset: int) -> Tensor:
        if kind not in TYPES:
            raise refused(
                f"{self.path.name}: {name[:60]} is of GGUF's type {kind}.",
                f"Glassformer reads {', '.join(one for one, _, _ in TYPES.values())}.",
                "Convert the model to one of them: llama-quantize MODEL Q8_0.",
            )
        _, block, n_bytes = TYPES[kind]
        size = prod(shape) // block * n_bytes
        if shape[-1] % block or start + offset + size > self.size:
            raise damaged(self.path, f"{name[:60]!r} of {shape} does not fit into it")
        return Tensor(shape, kind, start + offset, size)

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind == LIST:
            inner, n = self._number("I"), self._count(MAX_ITEMS)
            if inner == TEXT:
                return [self._text() for _ in range(n)]
            if inner not in SCALARS:
                raise damaged(self.path, f"a list is of type {inner}")
            size = struct.calcsize(f"<{SCALARS[inner]}")
            return list(struct.unpack(f"<{n}{SCALARS[inner]}", self._bytes(n * size)))
        if kind not in SCALARS:
            raise damaged(self.path, f"a value is of type {kind}")
        return self._scalar(SCALARS[kind])

    def _scalar(self, kind: str) -> Any:
        (value,) = struct.unpack(f"<{kind}", self._bytes(struct.calcsize(f"<{kind}")))
        return value

    def _number(self, kind: str) -> int:
        return int(self._scalar(kind))

    def _count(self, most: int) -> int:
        n = self._number("Q")
        if n > most:
            raise damaged(self.path, f"it names {n:,} items where {most:,} are the most")
        return n

    def _text(self) -> str:
        return self._bytes(self._number("Q")).decode("utf-8", "replace")

    def _bytes(self, n: int) -> bytes:
        if n > self.size - self._file.tell():  # before memory is taken
            raise damaged(self.path, "it is cut off")
        return self._file.read(n)
