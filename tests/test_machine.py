"""The machine that figures were measured on."""

import json
import multiprocessing
import platform
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

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


def _in_large_pages() -> int:
    """Bytes of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("AnonHugePages:"))
    return int(line.split()[1]) * 1024


def full_memory(told: Connection) -> None:
    held = torch.arange(2**23)  # 64 MiB
    before, taken = _in_large_pages(), resident("VmRSS")
    use_large_pages()
    grown, took = _in_large_pages() - before, resident("VmRSS") - taken
    told.send((grown / held.nbytes, took, torch.equal(held, torch.arange(2**23))))


def memory_with_holes(told: Connection) -> None:
    held = torch.empty(2**26)  # a quarter of a GiB, of which every other page is used
    held[:: 2 * 1024] = 1
    taken = resident("VmRSS")
    use_large_pages()
    told.send(resident("VmRSS") - taken)


def in_a_new_process(work: Callable[[Connection], None]) -> Any:
    """What it tells: the memory of a process that has run other tests is not only this one's."""
    told, telling = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=work, args=(telling,))
    process.start()
    process.join(60)
    assert process.exitcode == 0 and told.poll()
    return told.recv()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has them")
def test_memory_that_is_full_comes_into_large_pages_and_stays_what_it_was():
    share, took, is_same = in_a_new_process(full_memory)
    if share == 0:
        pytest.skip("this kernel has none")
    assert share >= 0.9 and took < 8 * 2**20 and is_same


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has them")
def test_memory_that_nobody_uses_is_not_taken_for_it():
    assert in_a_new_process(memory_with_holes) < 8 * 2**20


@pytest.mark.parametrize("gone", [AttributeError, TypeError, OSError])
def test_where_there_are_no_large_pages_nothing_happens(monkeypatch, gone):
    def missing(*_: object) -> None:
        raise gone

    monkeypatch.setattr(about.ctypes, "CDLL", missing)
    use_large_pages()
