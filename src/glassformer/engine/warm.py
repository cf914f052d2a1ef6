"""Compile what a translation needs, once for each machine, on two cores at a time.

    python -m glassformer.engine.warm        compile the encoder's half

Numba compiles one function after the other in a process, so the encoder's half goes to a second
process; both write to the cache of compiled code.
"""

import subprocess
import sys
import time
from functools import cache
from typing import Any

import numpy as np

from glassformer.compiled import cache_folder, kernel_name
from glassformer.decode.beam import advance
from glassformer.engine.decoding import NO_BEAM, advance_rows, best_of_rows
from glassformer.engine.forward import encode
from glassformer.engine.kernels import COLUMNS
from glassformer.engine.memory import BATCH, MEMORY, MODEL, struct
from glassformer.engine.threads import usable_cores

ENTRIES = encode, advance_rows, best_of_rows, advance


def is_warm() -> bool:
    """Return whether all of it is in the cache on disk."""
    found = {path.name.split("-")[0] for path in cache_folder().rglob("*.nbi")}
    return all(f"{f.__module__.rpartition('.')[2]}.{f.__name__}" in found for f in ENTRIES)


@cache
def warm_up() -> None:
    """Compile what is not in the cache, and say so on the standard error, with its time."""
    if is_warm():
        return
    began = time.perf_counter()
    sys.stderr.write(f"Compiling for this processor ({kernel_name()}), once, about 10 s: ")
    sys.stderr.flush()
    helper = None
    if usable_cores() > 1:
        command = [sys.executable, "-m", "glassformer.engine.warm"]
        helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    compile_decoder()
    if helper is not None:
        helper.wait()
    compile_encoder()  # found in the cache, or compiled here
    sys.stderr.write(f"{time.perf_counter() - began:.1f} s\n")


def compile_decoder() -> None:
    """Call the functions of the decoder's half with no row."""
    model, memory, batch = _nothing()
    beam, candidates = NO_BEAM
    values, ids = np.empty((0, 1, 1), np.float32), np.empty((0, 1, 1), np.int64)
    advance_rows(model, memory, batch, 0, 0, -1, beam, values, ids, 0, 0.0, candidates)
    done = beam._replace(n_live=np.zeros(1, np.int64))
    advance(done, values, ids, 0, 0.0, candidates)


def compile_encoder() -> None:
    """Call the functions of the encoder's half with no row."""
    model, memory, batch = _nothing()
    none = np.zeros(1, np.int64)
    encode(model, memory, batch, 0, none[:0].copy(), none)
    values, ids = np.empty((0, 1), np.float32), np.empty((0, 1), np.int64)
    best_of_rows(model, memory, 0, none, values, ids)


NO_MATRICES = np.zeros(COLUMNS, np.int64)


def _nothing() -> tuple[Any, Any, Any]:
    """Return structs of a model without layers and outputs, for calls that compile only."""
    model = struct(MODEL, matrices=NO_MATRICES.ctypes.data)
    return model[0], struct(MEMORY, n_threads=1)[0], struct(BATCH)[0]


if __name__ == "__main__":
    compile_encoder()
