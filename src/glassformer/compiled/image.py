"""Images of machine code: what Linux on x86-64 loads without LLVM.

    length of the header, 4 bytes | header, JSON | code and constants, as they lie in memory

LLVM takes some 45 MiB of a process and a tenth of a second of its start. An object file that it
makes for x86-64 with the large code model needs one thing only: 64-bit addresses at some hundred
places. In an image these places hold distances from its beginning. Loading is a copy and as many
additions.
"""

import json
import mmap
import platform
import sys
from collections import defaultdict
from ctypes import CDLL, addressof, c_char, c_size_t, c_void_p, cast
from struct import pack_into, unpack_from
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import SettingsError

LOADS_IMAGES = sys.platform == "linux" and platform.machine() == "x86_64"
ALIGNMENT = 64  # bytes: the widest vector; no section asks for more
# Tables of an ELF file of 64 bits, and those of their values that matter here.
SECTION = np.dtype(
    [("name", "u4"), ("kind", "u4"), ("flags", "u8"), ("address", "u8"), ("offset", "u8"),
     ("size", "u8"), ("link", "u4"), ("info", "u4"), ("alignment", "u8"), ("row", "u8")]
)  # fmt: skip
SYMBOL = np.dtype(
    [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"),
     ("size", "u8")]
)  # fmt: skip
RELOCATION = np.dtype([("offset", "u8"), ("kind", "u4"), ("symbol", "u4"), ("addend", "i8")])
CONTENT, SYMBOLS, RELOCATIONS = 1, 2, 4  # kinds of sections
WRITABLE, LOADED = 1, 2  # flags of sections
ADDRESS = 1  # the kind of relocation that is a symbol's address plus an addend, in 64 bits
ELSEWHERE = 0  # section of a symbol that is in another library


class ObjectFile:
    """An ELF file of LLVM: its sections and symbols."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        (start,) = unpack_from("<Q", code, 0x28)
        count, of_names = unpack_from("<HH", code, 0x3C)
        self.sections = np.frombuffer(code, SECTION, count, start)
        self._names = self.content(of_names)
        (table,) = np.flatnonzero(self.sections["kind"] == SYMBOLS).tolist()
        self.symbols = np.frombuffer(self.content(table), SYMBOL)
        self._symbol_names = self.content(self.sections[table]["link"])

    def content(self, section: int) -> bytes:
        start, size = (int(self.sections[section][field]) for field in ("offset", "size"))
        return self.code[start : start + size]

    def section_name(self, section: int) -> str:
        return _text(self._names, self.sections[section]["name"])

    def symbol_name(self, symbol: int) -> str:
        return _text(self._symbol_names, self.symbols[symbol]["name"])

    def loaded(self) -> list[int]:
        """Return the sections that a process needs: code and constants, no tables of a debugger."""
        flags, kinds = self.sections["flags"] & (WRITABLE | LOADED), self.sections["kind"]
        if (flags == WRITABLE | LOADED).any():
            raise ValueError("compiled code has variables of its own")
        found = np.flatnonzero((flags == LOADED) & (kinds == CONTENT))
        return [i for i in found.tolist() if self.section_name(i) != ".eh_frame"]

    def relocations(self) -> dict[int, NDArray[Any]]:
        """Return the relocations of each section that has some."""
        tables = np.flatnonzero(self.sections["kind"] == RELOCATIONS).tolist()
        return {
            int(self.sections[i]["info"]): np.frombuffer(self.content(i), RELOCATION)
            for i in tables
        }


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode()


def image_of(code: bytes, entry: str) -> bytes:
    """Return the image of an object file whose function `entry` is to be called."""
    file = ObjectFile(code)
    starts, image = dict[int, int](), bytearray()
    for section in file.loaded():
        image += bytes(-len(image) % ALIGNMENT)
        starts[section] = len(image)
        image += file.content(section)
    own, others = list[int](), defaultdict[str, list[int]](list)
    for section, relocations in file.relocations().items():
        for offset, kind, number, addend in relocations.tolist() if section in starts else ():
            place, target = starts[section] + offset, file.symbols[number]
            if kind != ADDRESS:
                raise ValueError(f"relocation {kind} is no address of 64 bits")
            if target["section"] == ELSEWHERE:
                others[file.symbol_name(number)].append(place)
            else:
                own.append(place)
                addend += starts[int(target["section"])] + int(target["value"])
            pack_into("<q", image, place, addend)
    (called,) = (s for i, s in enumerate(file.symbols) if file.symbol_name(i) == entry)
    begin = starts[int(called["section"])] + int(called["value"])
    header = json.dumps({"begin": begin, "own": own, "others": others}).encode()
    return len(header).to_bytes(4, "little") + header + image


def load(code: bytes) -> tuple[Any, int]:
    """Return the memory that holds an image, to be kept, and the address of its function."""
    start = 4 + int.from_bytes(code[:4], "little")
    header, size = json.loads(code[4:start]), len(code) - start
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(code[start:])
    address = addressof(c_char.from_buffer(memory))
    process = CDLL(None)  # with the C library and its mathematics
    places = {address: header["own"]}
    for name, of_name in header["others"].items():
        places[cast(getattr(process, name), c_void_p).value or 0] = of_name
    for target, of_target in places.items():
        for place in of_target:
            (addend,) = unpack_from("<q", memory, place)
            pack_into("<q", memory, place, target + addend)
    if process.mprotect(c_void_p(address), c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise SettingsError(
            "Compiled code cannot run.",
            "The system does not let this process make code executable.",
            'Allow it, or take the torch model: gf.load(name, engine="torch").',
        )
    return memory, address + int(header["begin"])
