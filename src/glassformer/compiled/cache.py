"""Where machine code is kept."""

import os
import tempfile
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from glassformer.compiled.host import kernel_name, target

# Sources that decide what machine code does, a test holds this list complete: what compiled code
# is written in, and the sizes and structs that it shares with Python.
SOURCES = (
    *("compiled/build.py", "compiled/image.py", "compiled/structs.py"),
    *("decode/beam.py", "decode/loops.py"),
    *("engine/forward.py", "engine/kernels.py", "engine/llvm.py", "engine/memory.py"),
    *("engine/sizes.py", "engine/steps.py", "engine/tiles.py", "engine/vector.py"),
)


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
