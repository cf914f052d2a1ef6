"""Machine code that Numba made from Python once, found on disk and called without Numba.

    SCALE = Entry("glassformer.engine.entries:scale", "qqd")     two integers and a float

    SCALE(address, n, 0.5)

An entry is a function of integers, floats and addresses. Its machine code is loaded from the cache
in a millisecond (`image.py`). Where the cache has none, `build.py` compiles it. Numba and LLVM,
which take half a second and 100 MiB to import, stay out of other processes.

Compiled functions release the GIL and check no bounds: what they are handed was checked before.
Floating-point operations are done as they are written, never reordered or fused: a loop that runs
as vectors on one day and one by one on another, because of where memory lies, gives the same bits.
The code is kept in the user's cache folder, apart for each version of the sources, each processor
and each set of instructions, so an update never meets old code. `GLASSFORMER_CACHE` names another
cache folder, `GLASSFORMER_KERNEL` another set of instructions: avx512-vnni, avx-vnni, avx2 or
generic.
"""

from glassformer.compiled.cache import cache_folder
from glassformer.compiled.entry import Entry
from glassformer.compiled.host import KERNELS, kernel_name

__all__ = ["KERNELS", "Entry", "cache_folder", "kernel_name"]
