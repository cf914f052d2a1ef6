"""Entries: the engine's functions that Python calls, and their compilation, once for each machine.

    python -m glassformer.engine.entries        compile the encoder's half

Numba compiles one function after the other in a process, so the encoder's half goes to a second
process; both write to the cache of compiled code. What only constraints, prefixes and classifiers
need is compiled when it is first called.
"""

import subprocess
import sys
import time
from functools import cache

from glassformer.compiled import Entry, kernel_name
from glassformer.decode.beam import FOLLOW
from glassformer.engine.threads import usable_cores

ENCODE = Entry("glassformer.engine.steps:encode_entry", "qqqqqqq")
ADVANCE_ROWS = Entry("glassformer.engine.steps:advance_rows_entry", "qqqqqqqqqqqd")
BEST_OF_ROWS = Entry("glassformer.engine.steps:best_of_rows", "qqqqqqqq")
WRITE_LOGITS = Entry("glassformer.engine.steps:write_logits_entry", "qqqqq")
NEEDED = ADVANCE_ROWS, FOLLOW, ENCODE  # by every translation


@cache
def warm_up() -> None:
    """Compile what is not in the cache, and say so on the standard error, with its time."""
    missing = [entry for entry in NEEDED if not entry.path.exists()]
    if not missing:
        return
    began = time.perf_counter()
    sys.stderr.write(f"Compiling for this processor ({kernel_name()}), once, about 15 s: ")
    sys.stderr.flush()
    helper = None
    if usable_cores() > 1 and ENCODE in missing[1:]:
        command = [sys.executable, "-m", "glassformer.engine.entries"]
        helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for entry in missing:
        if entry is ENCODE and helper is not None and helper.wait() == 0:
            continue
        entry.compile()
    sys.stderr.write(f"{time.perf_counter() - began:.1f} s\n")


if __name__ == "__main__":
    ENCODE.compile()
