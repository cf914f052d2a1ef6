"""Compile Python functions with Numba for this processor and keep the machine code on disk.

    @compiled
    def scale(x, factor): ...

Compiled functions release the GIL and check no bounds: what they are handed was checked before.
The code is kept in the user's cache folder, apart for each version of the sources and each set of
instructions, so an update never meets old code. `GLASSFORMER_CACHE` names another cache folder,
`GLASSFORMER_KERNEL` another set of instructions: avx512-vnni, avx-vnni, avx2 or generic.
"""

import os
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import binding

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
    if has.get("avx512vnni") and has.get("avx512bw") and has.get("avx512vl"):
        return "avx512-vnni"
    if has.get("avxvnni") and has.get("fma"):
        return "avx-vnni"
    return "avx2" if has.get("avx2") and has.get("fma") else "generic"


@cache
def cache_folder() -> Path:
    """Return the folder of compiled code: the user's cache, or a temporary folder of the user's."""
    named = os.environ.get("GLASSFORMER_CACHE")
    base = Path(named) if named else _user_cache() / "glassformer"
    name = f"{_digest()}-{kernel_name()}"
    for root in (base / "compiled", Path(tempfile.gettempdir()) / f"glassformer-{_user()}"):
        try:
            (root / name).mkdir(parents=True, exist_ok=True)
        except OSError:  # a read-only home
            continue
        if os.access(root / name, os.W_OK):
            return root / name
    return Path(tempfile.mkdtemp(prefix="glassformer-"))


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


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


def compiled(function: F) -> F:
    """Compile `function` on its first call from Python, and keep it on disk."""
    before = _config.CACHE_DIR  # Numba reads it while it decorates
    _config.CACHE_DIR = str(cache_folder())
    try:
        return _njit(cache=True, no_cfunc_wrapper=True, fastmath={"contract"}, **OPTIONS)(function)
    finally:
        _config.CACHE_DIR = before


def inner(function: F) -> F:
    """Compile `function` into the functions that call it; Python cannot call it.

    Sums keep the order in which they are written.
    """
    return _njit(fastmath={"contract"}, **INNER, **OPTIONS)(function)


def inlined(function: F) -> F:
    """Put `function` into the functions that call it, before they are compiled.

    For what is short or called once: Numba compiles every other function on its own, and again
    inside each function that calls it.
    """
    return _njit(inline="always", fastmath={"contract"}, **INNER, **OPTIONS)(function)


def fast(function: F) -> F:
    """Like `inner`, and let the sums of loops be vectorised; no value may be NaN.

    The order of such a sum depends on the number of its terms only, never on other rows.
    """
    fastmath = {"contract", "reassoc", "nsz", "arcp", "nnan", "afn"}
    return _njit(fastmath=fastmath, **INNER, **OPTIONS)(function)
