"""Machine code that Numba made from Python once, found on disk and called without Numba.

    SCALE = Entry("glassformer.engine.entries:scale", "qqd")     two integers and a float

    SCALE(address, n, 0.5)

An entry is a function of integers, floats and addresses. Where the cache has its machine code,
LLVM links it in some milliseconds, and Numba, which takes a quarter of a second and 50 MiB to
import, stays out of the process. Where not, `build.py` compiles it.

Compiled functions release the GIL and check no bounds: what they are handed was checked before.
Floating-point operations are done as they are written, never reordered or fused: a loop that runs
as vectors on one day and one by one on another, because of where memory lies, gives the same bits.
The code is kept in the user's cache folder, apart for each version of the sources, each processor
and each set of instructions, so an update never meets old code. `GLASSFORMER_CACHE` names another
cache folder, `GLASSFORMER_KERNEL` another set of instructions: avx512-vnni, avx-vnni, avx2 or
generic.
"""

from glassformer.compiled.cache import KERNELS, cache_folder, kernel_name
from glassformer.compiled.entry import Entry

__all__ = ["KERNELS", "Entry", "cache_folder", "kernel_name"]
