"""The processor of this machine, and the vector instructions that code is compiled for."""

import os
from functools import cache
from pathlib import Path

from glassformer.errors import SettingsError

KERNELS = ("avx512-vnni", "avx-vnni", "avx2", "generic")  # best first
CPUINFO = Path("/proc/cpuinfo")


@cache
def host() -> tuple[str, frozenset[str]]:
    """Return the name of this processor and its instructions, as LLVM calls them.

    Linux tells both for x86-64. Elsewhere LLVM does, which takes some 45 MiB.
    """
    lines = CPUINFO.read_text().partition("\n\n")[0].splitlines() if CPUINFO.exists() else []
    about = {key.strip(): value.strip() for key, _, value in (li.partition(":") for li in lines)}
    if "flags" in about:
        name = ("vendor_id", "cpu family", "model", "stepping")
        flags = about["flags"].replace("_", "").split()
        return " ".join(about.get(key, "") for key in name), frozenset(flags)
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    return binding.get_host_cpu_name(), frozenset(f for f, there in features.items() if there)


@cache
def target() -> tuple[str, str]:
    """Return the processor that code is compiled for and its instructions."""
    other = _other_processor()
    if other:
        return other, os.environ.get("NUMBA_CPU_FEATURES", "")
    name, instructions = host()
    return name, ",".join(sorted(instructions))


def _other_processor() -> str | None:
    """Return the processor that Numba is told to compile for, if it is not this one."""
    name = os.environ.get("NUMBA_CPU_NAME")
    return None if name == "host" else name


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
    if _other_processor():
        return "generic"
    has = host()[1]
    if has >= {"avx512vnni", "avx512bw", "avx512dq", "avx512vl"}:
        return "avx512-vnni"
    if has >= {"avxvnni", "fma"}:
        return "avx-vnni"
    return "avx2" if has >= {"avx2", "fma"} else "generic"
