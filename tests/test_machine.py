"""The machine that figures were measured on."""

import json
import sys

import pytest
import torch

import glassformer
from glassformer import machine as about
from glassformer.machine import machine, peak_memory


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
