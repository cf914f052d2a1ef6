"""Entries: the engine's functions that Python calls, and their compilation, once for each machine.

    python -m glassformer.engine.entries        compile what is missing, but for the decoder

Numba compiles one function after the other in a process. The decoder takes longest, so all else
that a translation needs goes to a second process; both write to the cache of compiled code. What
only constraints, prefixes and classifiers need is compiled when it is first called.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
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
    sys.stderr.write(f"Compiling for this processor ({kernel_name()}), once, in some seconds: ")
    sys.stderr.flush()
    first, *others = missing
    helper = None
    if others and usable_cores() > 1:
        command = [sys.executable, "-m", "glassformer.engine.entries"]
        helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first.compile()
    if helper is None or helper.wait() != 0:
        _compile(others)
    sys.stderr.write(f"{time.perf_counter() - began:.1f} s\n")


def _compile(entries: Sequence[Entry]) -> None:
    for entry in entries:
        if not entry.path.exists():
            entry.compile()


if __name__ == "__main__":
    _compile(NEEDED[1:])
