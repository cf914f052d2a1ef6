"""The machine that figures were measured on."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import glassformer
from glassformer import machine as about
from glassformer.compiled import kernel_name
from glassformer.machine import machine, peak_memory, usable_threads


def test_the_machine_has_processor_and_versions_and_survives_json():
    told = machine()
    assert told["cpu"] and told["instructions"] == kernel_name()
    assert told["torch"] == torch.__version__ and told["numpy"] == np.__version__
    assert told["threads"] == torch.get_num_threads()
    assert told["glassformer"] == glassformer.__version__
    assert json.loads(json.dumps(told)) == told
    assert machine(threads=7)["threads"] == 7


def test_the_version_of_torch_is_read_without_importing_it():
    code = (
        "import json, sys; from glassformer.machine import machine; told = machine();"
        "print(json.dumps(told)); sys.exit('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    told = json.loads(run.stdout)
    assert told["torch"] == torch.__version__ and told["threads"] >= 1


def test_without_torch_threads_are_the_usable_processors(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(about.os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    assert usable_threads() == 3
    monkeypatch.delattr(about.os, "sched_getaffinity")
    monkeypatch.setattr(about.os, "cpu_count", lambda: 4)
    assert usable_threads() == 4


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell")
def test_peak_memory_is_in_bytes_and_includes_live_arrays():
    held = np.ones(2**26, np.float32)  # a quarter of a GiB
    peak = peak_memory()
    assert held.nbytes == 2**28 and peak is not None
    assert 0.9 * 2**28 < peak < 2**40  # the kernel counts pages a little late


def test_on_windows_peak_memory_is_unknown(monkeypatch):
    monkeypatch.setattr(about.platform, "system", lambda: "Windows")
    assert peak_memory() is None
