"""The machine that figures were measured on."""

import json
import platform
import subprocess
import sys

import pytest
import torch

import glassformer
from glassformer import machine as about
from glassformer.bench.peak import resident
from glassformer.machine import give_back_memory, machine, peak_memory, use_large_pages


def test_it_tells_what_decides_speed_and_goes_through_json():
    told = machine()
    assert told["cpu"] and told["torch"] == torch.__version__
    assert told["threads"] == torch.get_num_threads()
    assert told["glassformer"] == glassformer.__version__
    assert json.loads(json.dumps(told)) == told


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell")
def test_peak_memory_is_in_bytes_and_counts_what_is_held():
    held = torch.ones(2**26)  # a quarter of a GiB
    peak = peak_memory()
    assert held.nbytes == 2**28 and peak is not None
    assert 0.9 * 2**28 < peak < 2**40  # the kernel counts pages a little late


def test_where_the_system_does_not_tell_nothing_is_made_up(monkeypatch):
    monkeypatch.setattr(about.platform, "system", lambda: "Windows")
    assert peak_memory() is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another libc may keep it")
def test_memory_that_was_freed_goes_back():
    held = [torch.ones(2**12) for _ in range(2**13)]  # 128 MiB in pieces too small to be mapped
    last = held.pop()
    before = resident("VmRSS")
    del held
    give_back_memory()
    assert resident("VmRSS") < before - 2**26 and last[0] == 1


def test_where_there_is_no_such_libc_nothing_happens(monkeypatch):
    monkeypatch.setattr(about.ctypes, "CDLL", lambda name: object())
    give_back_memory()


USE_LARGE_PAGES = """
import json
from pathlib import Path
import torch
from glassformer.bench.peak import resident
from glassformer.machine import use_large_pages

def in_large_pages():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("AnonHugePages:"))
    return int(line.split()[1]) * 1024

{memory}
before, taken = in_large_pages(), resident("VmRSS")
use_large_pages()
took, grown = resident("VmRSS") - taken, in_large_pages() - before
was = held
{memory}
print(json.dumps([took, grown / held.nbytes, torch.equal(was, held)]))
"""


def use_them_for(memory: str) -> tuple[int, float, bool]:
    """In a process of its own: the memory of one that has run other tests is not only this one's.

    Bytes that it took, the share of `held` now in large pages, and whether that is as it was.
    """
    run = [sys.executable, "-c", USE_LARGE_PAGES.format(memory=memory)]
    said = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout
    took, share, is_same = json.loads(said)
    return took, share, is_same


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has them")
def test_memory_that_is_full_comes_into_large_pages_and_stays_what_it_was():
    took, share, is_same = use_them_for("held = torch.arange(2**23)  # 64 MiB")
    if share == 0:
        pytest.skip("this kernel has none")
    assert took < 8 * 2**20 and share >= 0.9 and is_same


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has them")
def test_memory_that_nobody_uses_is_not_taken_for_it():
    every_other_page = (
        "held = torch.empty(2**26)[:: 2 * 1024]; held[:] = 1"  # of a quarter of a GiB
    )
    took, _, is_same = use_them_for(every_other_page)
    assert took < 8 * 2**20 and is_same


@pytest.mark.parametrize("gone", [AttributeError, TypeError, OSError])
def test_where_there_are_no_large_pages_nothing_happens(monkeypatch, gone):
    def missing(*_: object) -> None:
        raise gone

    monkeypatch.setattr(about.ctypes, "CDLL", missing)
    use_large_pages()
