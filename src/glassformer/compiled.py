"""Compile Python functions with Numba for this processor and keep the machine code on disk.

    @compiled
    def scale(x, factor): ...

Compiled functions release the GIL and check no bounds: what they are handed was checked before.
Floating-point operations are done as they are written, never reordered or fused: a loop that runs
as vectors on one day and one by one on another, because of where memory lies, gives the same bits.
The code is kept in the user's cache folder, apart for each version of the sources and each set of
instructions, so an update never meets old code. `GLASSFORMER_CACHE` names another cache folder,
`GLASSFORMER_KERNEL` another set of instructions: avx512-vnni, avx-vnni, avx2 or generic.
"""

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import binding
from numba.core.caching import IndexDataCacheFile

from glassformer.errors import SettingsError

_njit: Any = numba.njit  # which has no types for all of its options
_config: Any = numba.config
F = TypeVar("F", bound=Callable[..., Any])
KERNELS = ("avx512-vnni", "avx-vnni", "avx2", "generic")  # best first
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
# Wrappers that let Python and C call a function take as long to compile as the function.
INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
COMPILED_ROOMS = ("engine", "decode", "compiled.py")  # whose sources decide what machine code does


@cache
def kernel_name() -> str:
    """Return the set of vector instructions that matrix products are compiled for."""
    named = os.environ.get("GLASSFORMER_KERNEL")
    if named:
        if named not in KERNELS:
            raise SettingsError(
                f"GLASSFORMER_KERNEL = {named!r} is not a set of instructions.",
                f"The engine has kernels for {', '.join(KERNELS)}.",
                "Set it to one of them, or leave it out to have the best that the processor has.",
            )
        return named
    if _config.CPU_NAME not in (None, "host"):  # compiled for another processor than this
        return "generic"
    has = binding.get_host_cpu_features()
    if all(has.get(f"avx512{part}") for part in ("vnni", "bw", "dq", "vl")):
        return "avx512-vnni"
    if has.get("avxvnni") and has.get("fma"):
        return "avx-vnni"
    return "avx2" if has.get("avx2") and has.get("fma") else "generic"


@cache
def cache_folder() -> Path:
    """Return the folder of compiled code: in the user's cache, or a temporary one."""
    named = os.environ.get("GLASSFORMER_CACHE")
    base = Path(named) if named else _user_cache() / "glassformer"
    name = f"{_digest()}-{kernel_name()}"
    try:
        (base / "compiled" / name).mkdir(parents=True, exist_ok=True)
        if os.access(base / "compiled" / name, os.W_OK):
            return base / "compiled" / name
    except OSError:  # a read-only home
        pass
    # A private folder: in a shared one another user could plant code.
    return Path(tempfile.mkdtemp(prefix="glassformer-"))


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _digest() -> str:
    """Return a checksum of all sources that are compiled: Numba looks at one file at a time."""
    root = Path(__file__).parent
    files = [
        p
        for room in COMPILED_ROOMS
        for p in ([root / room] if "." in room else sorted((root / room).glob("*.py")))
    ]
    text = b"".join(path.read_bytes() for path in files) + numba.__version__.encode()
    return sha256(text).hexdigest()[:16]


class CheckedFiles(IndexDataCacheFile):
    """Numba's files of one compiled function, with a checksum of each beside them.

    Damaged files count as absent: Numba would stop with an error, or run what is in them. Where
    nothing can be written, code is compiled for this process alone.
    """

    @property
    def _sums(self) -> Path:
        return Path(f"{self._index_path}.sha256")

    def _digests(self) -> dict[str, str]:
        stem = self._index_name.removesuffix(".nbi")
        files = sorted(Path(self._cache_path).glob(f"{stem}.nb[ic]"))
        files += sorted(Path(self._cache_path).glob(f"{stem}.*.nbc"))
        return {file.name: sha256(file.read_bytes()).hexdigest() for file in files}

    def _are_whole(self) -> bool:
        try:
            return bool(json.loads(self._sums.read_bytes()) == self._digests())
        except (OSError, ValueError):
            return False

    def load(self, key: Any) -> Any:
        """Return the machine code of a signature, or None."""
        return super().load(key) if self._are_whole() else None

    def save(self, key: Any, data: Any) -> None:
        """Write the machine code of a signature, then the checksums."""
        with suppress(OSError):
            if not self._are_whole():
                Path(self._index_path).unlink(missing_ok=True)
            super().save(key, data)
            fresh = self._sums.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(self._digests()))
            fresh.replace(self._sums)


def compiled(function: F) -> F:
    """Compile `function` on its first call from Python, and keep it on disk."""
    before = _config.CACHE_DIR  # Numba reads it while it decorates
    _config.CACHE_DIR = str(cache_folder())
    try:
        made = _njit(cache=True, no_cfunc_wrapper=True, **OPTIONS)(function)
        files = made._cache._cache_file
        stem = files._index_name.removesuffix(".nbi")
        made._cache._cache_file = CheckedFiles(files._cache_path, stem, files._source_stamp)
        return made
    finally:
        _config.CACHE_DIR = before


def inner(function: F) -> F:
    """Compile `function` into the functions that call it; Python cannot call it."""
    return _njit(**INNER, **OPTIONS)(function)


def inlined(function: F) -> F:
    """Put `function` into the functions that call it, before they are compiled.

    For what is short or called once: Numba compiles every other function on its own, and again
    inside each function that calls it.
    """
    return _njit(inline="always", **INNER, **OPTIONS)(function)
