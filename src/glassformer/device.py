"""Which device a model runs on, by name: auto, cpu, cuda, cuda:1 or mps. Imports torch late.

`auto` is CUDA where there is a GPU of it, else MPS (Apple), else the CPU. A device that is asked
for by name and is not there is an error, never another device.
"""

import re
from typing import TYPE_CHECKING, Any

from glassformer.config import DEVICE
from glassformer.errors import SettingsError
from glassformer.extras import is_installed, require_torch

if TYPE_CHECKING:
    import torch


def check_name(name: str) -> None:
    """Refuse what is no name of a device."""
    if not re.fullmatch(DEVICE, name):
        raise SettingsError(
            f"There is no device {name!r}.",
            "The devices are auto, cpu, cuda, mps, and cuda:N for GPU number N from 0.",
            "For example --device cuda, train.device=cuda:1, or load(..., device='mps').",
        )


def runs_on_cpu(name: str) -> bool:
    """Return whether a name stands for the CPU; torch is asked only where it has to be."""
    check_name(name)
    if name == "cpu" or (name == "auto" and not is_installed("torch")):
        return True
    return resolve(name).type == "cpu"


def resolve(name: str, rank: int | None = None) -> "torch.device":
    """Return the device of a name, which is there.

    `rank` is the number of this process on its machine, under torchrun: it takes GPU number `rank`
    unless the name has a number.
    """
    check_name(name)
    require_torch(f"The device {name!r}")
    import torch

    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if _count(kind))
    kind, _, number = name.partition(":")
    count = _count(kind)
    if not count:
        raise SettingsError(f"This machine has no device {name!r} for torch.", *_absent(kind))
    if kind != "cuda":
        return torch.device(kind)
    index = int(number) if number else rank or 0
    if index >= count:
        raise SettingsError(
            f"There is no GPU number {index}.",
            f"torch sees {count}, numbered from 0" + (f"; process {rank}" if rank else "") + ".",
            "Choose another one, start fewer processes, or look at CUDA_VISIBLE_DEVICES.",
        )
    return torch.device("cuda", index)


def wait_for(device: "torch.device") -> None:
    """Return when the device has done all its work: a GPU computes while Python goes on."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def found() -> list[tuple[str, str]]:
    """Return the devices that torch can use and what each is called, the best first."""
    import torch

    gpus = [(f"cuda:{i}", _gpu(torch.cuda.get_device_properties(i))) for i in range(_count("cuda"))]
    apple = [("mps", "Apple GPU")] if _count("mps") else []
    return [*gpus, *apple, ("cpu", f"{torch.get_num_threads()} threads of torch")]


def _count(kind: str) -> int:
    """Return how many devices of a kind torch can use."""
    import torch

    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    return int(kind == "cpu" or torch.backends.mps.is_available())


def _gpu(properties: Any) -> str:
    version = f"{properties.major}.{properties.minor}"
    return f"{properties.name}, {properties.total_memory / 2**30:.1f} GiB, compute {version}"


def _absent(kind: str) -> tuple[str, str]:
    """Return why torch has no device of a kind, and what to do."""
    import torch

    if kind == "mps":
        return "It needs an Apple GPU and macOS 14.", "Use --device cpu, or auto."
    if torch.version.cuda is None and torch.version.hip is None:
        return (
            f"torch {torch.__version__} is a build without CUDA.",
            "Install a build for your GPU: https://pytorch.org/get-started/locally/. Or --device "
            "cpu.",
        )
    return "torch finds no GPU or no driver.", "See what nvidia-smi says, or use --device cpu."
