"""The machine that figures were measured on."""

import json
import platform
import sys

import pytest
import torch

import glassformer
from glassformer import machine as about
from glassformer.bench.peak import resident
from glassformer.machine import give_back_memory, machine, peak_memory


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
