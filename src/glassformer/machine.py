"""The machine that figures were measured on, so that a reader can judge them; and its memory."""

import ctypes
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import torch

from glassformer import __version__


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
