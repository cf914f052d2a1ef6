"""The machine that figures were measured on, so that a reader can judge them; and its memory."""

import ctypes
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from glassformer import __version__

LARGE_PAGE = 1 << 21  # bytes
AT_ONCE = 1 << 30  # that are looked through
COLLAPSE = 25  # madvise(2): since Linux 6.1


def machine() -> dict[str, str | int]:
    """Its processor, and the software that was run on it."""
    return {
        "cpu": _cpu_name(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "glassformer": __version__,
    }


def _cpu_name() -> str:
    """The vendor's name for the processor, where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines: Iterable[str] = path.read_text().splitlines() if path.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or sys.platform)


def peak_memory() -> int | None:
    """Bytes of memory that this process has had at most since it began; None on Windows.

    Linux tells it as VmHWM. Its ru_maxrss would begin with that of the process that started this.
    """
    system = platform.system()
    if system == "Linux":
        status = Path("/proc/self/status").read_text().splitlines()
        (line,) = (line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    if system == "Windows":
        return None
    import resource  # there is none on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def give_back_memory() -> None:
    """What was freed and is still held for later goes back to the system, where libc can do that.

    After work that is done once, such as loading a model: what comes next would not fit in there.
    """
    with suppress(AttributeError, OSError, TypeError):  # another libc, or none to be found
        ctypes.CDLL(None).malloc_trim(0)


def use_large_pages() -> None:
    """Wherever this process has 2 MiB in one piece, they become one page, where Linux can do that.

    For memory that is read from end to end again and again, such as the weights of a large model:
    the processor looks up where a page is, and what it fetches ahead ends with it. Nothing is taken
    that was not in use: pieces with a hole stay as they are.
    """
    with suppress(AttributeError, OSError, TypeError):  # another system
        collapse = ctypes.CDLL(None).madvise
        collapse.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        small = os.sysconf("SC_PAGESIZE")
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
            for begin, end in _own_memory():
                pagemap.seek(begin // small * 8)
                pages = np.frombuffer(pagemap.read((end - begin) // small * 8), dtype=np.uint64)
                if len(pages) < (end - begin) // small:
                    continue  # gone since it was listed
                is_there = (pages >> np.uint64(63)).reshape(-1, LARGE_PAGE // small).all(1)
                for piece in np.flatnonzero(is_there).tolist():
                    collapse(begin + piece * LARGE_PAGE, LARGE_PAGE, COLLAPSE)


def _own_memory() -> Iterator[tuple[int, int]]:
    """Where it lies, as far as large pages would: what was mapped from a file is not among it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, _, file, *_ = line.split()
        begin, end = (int(address, 16) for address in place.split("-"))
        begin, end = -(-begin // LARGE_PAGE) * LARGE_PAGE, end // LARGE_PAGE * LARGE_PAGE
        if rights.startswith("rw") and file == "0":
            for first in range(begin, end, AT_ONCE):
                yield first, min(first + AT_ONCE, end)
