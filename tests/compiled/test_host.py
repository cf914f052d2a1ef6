"""The description of the processor agrees with that of LLVM, which Numba asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from llvmlite import binding

from glassformer.compiled import host

NEEDED = ("avx512vnni", "avx512bw", "avx512dq", "avx512vl", "avxvnni", "avx2", "fma")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    functions = host.host, host.target, host.kernel_name
    for name in ("GLASSFORMER_KERNEL", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    for function in functions:
        function.cache_clear()
    yield
    monkeypatch.undo()
    for function in functions:
        function.cache_clear()


def test_linux_and_llvm_agree_on_the_instructions_that_decide() -> None:
    features = binding.get_host_cpu_features()
    instructions = host.host()[1]
    assert {n for n in NEEDED if n in instructions} == {n for n in NEEDED if features.get(n)}


def test_the_same_kernel_is_chosen_where_only_llvm_knows_the_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = host.kernel_name()
    for function in (host.host, host.kernel_name):
        function.cache_clear()
    monkeypatch.setattr(host, "CPUINFO", tmp_path / "absent")
    assert host.kernel_name() == chosen
    assert host.host()[0] == binding.get_host_cpu_name()


@pytest.mark.parametrize(
    ("flags", "kernel"),
    [
        ("sse2 avx2 fma avx512_vnni avx512bw avx512dq avx512vl", "avx512-vnni"),
        ("sse2 avx2 fma avx512_vnni avx512bw avx512dq", "avx2"),
        ("sse2 avx2 fma avx_vnni", "avx-vnni"),
        ("sse2 avx2", "generic"),
    ],
)
def test_the_best_kernel_of_a_processor_is_chosen(
    flags: str, kernel: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = f"vendor_id\t: Some\nmodel\t\t: 7\nflags\t\t: {flags}\n\nvendor_id\t: Other\n"
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(host, "CPUINFO", tmp_path / "cpuinfo")
    assert host.kernel_name() == kernel
    assert host.target() == ("Some  7 ", ",".join(sorted(flags.replace("_", "").split())))


def test_code_for_another_processor_has_plain_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "haswell")
    assert host.kernel_name() == "generic"
    assert host.target() == ("haswell", "")
