"""The machine that figures are measured on, and the memory of this process."""

import os
import platform
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from glassformer import __version__


def machine(threads: int | None = None) -> dict[str, str | int]:
    """Return the processor, the number of threads in use, and the versions of the software."""
    from glassformer.compiled import kernel_name  # LLVM takes a while to import

    about: dict[str, str | int] = {
        "cpu": cpu_name(),
        "instructions": kernel_name(),
        "cores": os.cpu_count() or 1,
        "threads": threads or usable_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }
    with suppress(PackageNotFoundError):  # the core package works without torch
        about["torch"] = version("torch")
    return about | {"glassformer": __version__}


def usable_threads() -> int:
    """Return the threads of torch if it is in use, else the processors this process may use."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """Return the vendor's name for the processor, where the system gives it."""
    path = Path("/proc/cpuinfo")
    lines: Iterable[str] = path.read_text().splitlines() if path.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or sys.platform)


def peak_memory() -> int | None:
    """Return the peak resident set of this process in bytes; None on Windows.

    On Linux it is VmHWM: ru_maxrss would begin with that of the process that started this one.
    """
    system = platform.system()
    if system == "Windows":
        return None
    if system == "Linux":
        return _status_bytes("VmHWM")
    import resource  # there is none on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident_memory() -> int | None:
    """Return the bytes of this process in memory now; None where there is no /proc."""
    return _status_bytes("VmRSS")


def virtual_memory() -> int | None:
    """Return the bytes of addresses that this process has; None where there is no /proc."""
    return _status_bytes("VmSize")


def reset_peak_memory() -> None:
    """Let `peak_memory` start again from what is in memory now, where there is a /proc."""
    switch = Path("/proc/self/clear_refs")
    if switch.exists():
        switch.write_text("5")


def _status_bytes(field: str) -> int | None:
    status = Path("/proc/self/status")
    found = re.search(rf"{field}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else None
