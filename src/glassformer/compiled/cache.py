"""Where machine code is kept, and for which processor it is made."""

import os
import tempfile
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from llvmlite import binding

from glassformer.errors import SettingsError

KERNELS = ("avx512-vnni", "avx-vnni", "avx2", "generic")  # best first
# Sources that decide what machine code does, a test holds this list complete: what compiled code
# is written in, and the sizes and structs that it shares with Python.
SOURCES = (
    *("compiled/build.py", "compiled/structs.py", "decode/beam.py", "decode/loops.py"),
    *("engine/forward.py", "engine/kernels.py", "engine/llvm.py", "engine/memory.py"),
    *("engine/sizes.py", "engine/steps.py", "engine/tiles.py", "engine/vector.py"),
)


@cache
def target() -> tuple[str, str]:
    """Return the processor that code is compiled for, and its features, as Numba chooses them."""
    name = os.environ.get("NUMBA_CPU_NAME")
    if name in (None, "host"):
        return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return str(name), os.environ.get("NUMBA_CPU_FEATURES", "")


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
    if os.environ.get("NUMBA_CPU_NAME") not in (None, "host"):  # for another processor than this
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
    """Return a checksum of all that decides what the machine code is."""
    root = Path(__file__).parents[1]
    text = b"".join((root / source).read_bytes() for source in SOURCES)
    compilers = version("numba"), version("llvmlite"), *target()
    return sha256(text + "\n".join(compilers).encode()).hexdigest()[:16]
