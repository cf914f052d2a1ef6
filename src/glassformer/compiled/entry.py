"""Functions of machine code that Python calls: loaded from the cache, or compiled."""

import os
from collections.abc import Callable
from contextlib import suppress
from ctypes import CFUNCTYPE, addressof, c_char, c_double, c_int32, c_int64, c_void_p
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from glassformer.compiled.cache import cache_folder
from glassformer.compiled.image import LOADS_IMAGES, image_of, load

KINDS: dict[str, Any] = {"q": c_int64, "d": c_double}  # as in Python's `struct`


class Entry:
    """A compiled function; `place` is its module and name, `kinds` a letter for each argument.

    It is loaded on its first call. Its machine code is one file of the cache: a SHA-256 of the
    rest, then an image, or LLVM's object file where images cannot be loaded. A damaged file counts
    as absent.
    """

    def __init__(self, place: str, kinds: str) -> None:
        self.module, self.name = place.split(":")
        self.kinds = kinds
        self.was_cached: bool | None = None  # None: not loaded yet
        self._function: Callable[..., Any] | None = None
        self._memory: Any = None  # keeps the machine code
        self._lock = Lock()

    def __call__(self, *arguments: float) -> None:
        """Call the compiled function; it runs without the GIL."""
        (self._function or self._loaded())(*arguments)

    @property
    def path(self) -> Path:
        """Return the file of its machine code."""
        return cache_folder() / f"{self.module.rpartition('.')[2]}.{self.name}.code"

    def code(self) -> bytes | None:
        """Return its machine code from the cache, or None where there is none, or a damaged one."""
        try:
            stored = self.path.read_bytes()
        except OSError:
            return None
        return stored[32:] if sha256(stored[32:]).digest() == stored[:32] else None

    def compile(self) -> bytes:
        """Compile it and keep the machine code, where the cache can be written."""
        from glassformer.compiled.build import machine_code  # which imports Numba

        code = machine_code(getattr(import_module(self.module), self.name), self.kinds)
        code = image_of(code, SYMBOL) if LOADS_IMAGES else code
        fresh = self.path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # a full disk: this process alone has the code
            fresh.write_bytes(sha256(code).digest() + code)
            fresh.replace(self.path)
        return code

    def _loaded(self) -> Callable[..., Any]:
        with self._lock:
            if self._function is None:
                code = self.code()
                self.was_cached = code is not None
                code = code or self.compile()
                self._memory, address = load(code) if LOADS_IMAGES else _linked_by_llvm(code)
                arguments = [c_void_p, c_void_p, *(KINDS[kind] for kind in self.kinds)]
                loaded = CFUNCTYPE(c_int32, *arguments)(address)
                self._function = partial(loaded, NOWHERE, NOWHERE)
            return self._function


_nowhere = (c_char * 8)()
NOWHERE = addressof(_nowhere)  # for the result and the exception of a function that has neither
SYMBOL = "entry"  # name of the compiled function in its object file


@cache
def _linker() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler()


def _linked_by_llvm(code: bytes) -> tuple[Any, int]:
    """Return LLVM's library of an object file, to be kept, and the address of its function."""
    from llvmlite import binding

    library = binding.JITLibraryBuilder().add_object_img(code)
    library.add_current_process()  # the C library's mathematics
    library.export_symbol(SYMBOL)
    linked = library.link(_linker(), sha256(code).hexdigest())
    return linked, linked[SYMBOL]
