"""Names of devices: which one they stand for on a machine, and the errors where it is not there."""

from types import SimpleNamespace

import pytest
import torch

from glassformer import device
from glassformer.config import TrainSettings
from glassformer.device import found, resolve, runs_on_cpu, wait_for
from glassformer.errors import InputError, SettingsError
from glassformer.pipeline import load_translator


def machine(monkeypatch: pytest.MonkeyPatch, gpus: int = 0, apple: bool = False) -> None:
    """Let torch see so many GPUs of CUDA, or one of Apple."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: apple)


def test_auto_takes_cuda_then_mps_then_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in (((2, True), "cuda:0"), ((0, True), "mps"), ((0, False), "cpu")):
        machine(monkeypatch, *there)
        assert str(resolve("auto")) == expected
        assert runs_on_cpu("auto") == (expected == "cpu")


def test_a_process_takes_the_gpu_of_its_number_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(monkeypatch, gpus=2)
    assert str(resolve("auto", rank=1)) == str(resolve("cuda", rank=1)) == "cuda:1"
    assert str(resolve("cuda:0", rank=1)) == "cuda:0"
    with pytest.raises(SettingsError, match=r"no GPU number 2(.|\n)*sees 2, numbered from 0") as e:
        resolve("cuda", rank=2)
    assert "fewer processes" in e.value.remedy


def test_a_device_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(SettingsError, match=r"no device 'cuda'(.|\n)*a build without CUDA"):
        resolve("cuda")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    with pytest.raises(SettingsError, match=r"finds no GPU or no driver(.|\n)*nvidia-smi"):
        load_translator("en-fr", device="cuda:1")
    with pytest.raises(SettingsError, match="Apple GPU"):
        resolve("mps")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CPU", ""])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"no device(.|\n)*auto, cpu, cuda, mps"):
        runs_on_cpu(name)
    with pytest.raises(SettingsError, match=r"device = (.|\n)*auto\|cpu\|mps"):
        TrainSettings.of(device=name)


def test_without_torch_auto_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "is_installed", lambda package: False)
    assert runs_on_cpu("auto") and runs_on_cpu("cpu")


def test_the_engine_is_for_cpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpus=1)
    with pytest.raises(InputError, match="compiled engine does not run on the device 'cuda'"):
        load_translator("en-fr", engine="compiled", device="cuda")


def test_the_devices_are_named_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpus=1, apple=True)
    about = SimpleNamespace(name="A GPU", total_memory=24 * 2**30, major=8, minor=6)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: about)
    names = dict(found())
    assert list(names) == ["cuda:0", "mps", "cpu"]
    assert names["cuda:0"] == "A GPU, 24.0 GiB, compute 8.6"


def test_clocks_wait_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda which: waited.append(str(which)))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    for name in ("cuda:1", "mps", "cpu"):
        wait_for(torch.device(name))
    assert waited == ["cuda:1", "mps"]
