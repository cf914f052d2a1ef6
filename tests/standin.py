"""A device without hardware: its tensors hold their data on the CPU but never mix with the CPU's.

    with standing_in() as device:
        model.to(device)(ids.to(device))      # ids on the CPU raise DeviceMixError
        with watched() as seen:
            loss(model, batch).backward()     # seen.on_cpu, seen.waits

torch calls every operator on such tensors here. It runs on the data behind them, and gives tensors
of the device again. Operators that take tensors of both are refused, as a GPU refuses them: only
copies, and numbers without dimensions, may cross. With `lacks`, a dtype does not exist on it, as
float64 does not on MPS.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

NAME = "standin"
_KEPT: list[torch.library.Library] = []  # what a library registers ends with it
COPIES = {"_to_copy", "copy_"}
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2"}


class DeviceMixError(RuntimeError):
    """An operator was given tensors of the device and tensors of the CPU."""


class StandInTensor(torch.Tensor):
    """A tensor of the device; `data_on_cpu` holds what it is."""

    data_on_cpu: torch.Tensor

    @staticmethod
    def __new__(cls, data: torch.Tensor) -> "StandInTensor":
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, data.size(), strides=data.stride(), storage_offset=data.storage_offset(),
            dtype=data.dtype, device=torch.device(NAME, 0), requires_grad=data.requires_grad,
        )  # fmt: skip
        tensor.data_on_cpu = data
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operator, args, kwargs or {})

    def __repr__(self) -> str:
        return f"StandInTensor({self.data_on_cpu})"


class _Device(TorchDispatchMode):
    """Sees what has no tensor yet: torch.zeros(..., device="standin")."""

    def __init__(self, lacks: tuple[torch.dtype, ...]) -> None:
        super().__init__()
        self.lacks = lacks

    def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = _run(operator, args, kwargs or {})
        for tensor in tree_leaves(result):
            if isinstance(tensor, StandInTensor) and tensor.dtype in self.lacks:
                raise TypeError(f"{operator}: the device has no {tensor.dtype}")
        return result


def _run(operator: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    ours, others = [list[Any](), list[Any]()]
    data = _unwrapped(args, ours, others), _unwrapped(kwargs, ours, others)
    if ours and any(x.dim() for x in others) and operator.overloadpacket.__name__ not in COPIES:
        raise DeviceMixError(f"{operator}: tensors of the device and of the CPU")
    here = bool(ours)
    if kwargs.get("device") is not None:
        here = torch.device(kwargs["device"]).type == NAME
        data[1]["device"] = torch.device("cpu")
    result = operator(*data[0], **data[1])
    written, returned = _writes(operator)
    if written:  # x.add_(y), or out=x: the result is x itself
        given = [kwargs[name] if name in kwargs else args[i] for i, name in written]
        return None if not returned else given[0] if returned == 1 else tuple(given[:returned])
    return tree_map_only(torch.Tensor, StandInTensor, result) if here else result


def _unwrapped(x: Any, ours: list[Any], others: list[Any]) -> Any:
    """Return x with the data of tensors of the device, and note which tensors are in it."""
    if isinstance(x, StandInTensor):
        ours.append(x)
        return x.data_on_cpu
    if isinstance(x, torch.Tensor):
        others.append(x)
    if isinstance(x, list | tuple):
        return type(x)(_unwrapped(one, ours, others) for one in x)
    if isinstance(x, dict):
        return {name: _unwrapped(one, ours, others) for name, one in x.items()}
    return x


@cache
def _writes(operator: Any) -> tuple[list[tuple[int, str]], int]:
    """Return place and name of the arguments that an operator writes to, and what it returns."""
    arguments = enumerate(operator._schema.arguments)
    written = [(i, a.name) for i, a in arguments if a.alias_info and a.alias_info.is_write]
    return written, len(operator._schema.returns)


class _Module(backend_registration._DummyBackendModule):
    """Counterpart of torch.cuda for the stand-in device."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


def _register() -> None:
    """Make torch know the device, whose guard lets autograd run on it.

    Once, when this module is imported: autograd counts the devices at its first backward pass.
    """
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    library = torch.library.Library("aten", "IMPL")
    for allocation in ("empty_strided", "empty.memory_format"):
        library.impl(allocation, partial(_allocate, allocation), "PrivateUse1")
    _KEPT.append(library)


def _allocate(name: str, *args: Any, device: Any = None, **kwargs: Any) -> StandInTensor:
    """Allocate in a thread without the mode, such as the one that prepares batches."""
    operator, _, overload = name.partition(".")
    make = getattr(getattr(torch.ops.aten, operator), overload or "default")
    return StandInTensor(make(*args, device=torch.device("cpu"), **kwargs))


@contextmanager
def standing_in(*lacks: torch.dtype) -> Iterator[torch.device]:
    """Yield the device, which exists inside the block."""
    with as_on_a_gpu(), _Device(lacks):
        yield torch.device(NAME, 0)


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Set two switches of torch by which the device is like a GPU.

    torch.tensor(list, device=...) copies to the device where operators are seen, and Module.to
    keeps parameters that are tied tied.
    """
    lifted = torch._C._only_lift_cpu_tensors()
    swapped = torch.__future__.get_swap_module_params_on_conversion()
    torch._C._set_only_lift_cpu_tensors(True)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch._C._set_only_lift_cpu_tensors(lifted)
        torch.__future__.set_swap_module_params_on_conversion(swapped)


@dataclass
class Seen:
    """Operators of a block, by name: what a GPU would be slowed down by."""

    on_cpu: Counter[str] = field(default_factory=Counter)  # made a tensor on the CPU
    waits: Counter[str] = field(default_factory=Counter)  # need values: Python waits for a GPU


class _Watch(TorchDispatchMode):
    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        name = operator.overloadpacket.__name__
        made = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.dim()]
        if any(x.device.type == "cpu" for x in made):  # numbers without dimensions may cross
            self.seen.on_cpu[name] += 1
        given = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
        by_mask = name.startswith("index") and any(x.dtype is torch.bool for x in given[1:])
        if by_mask or name in WAITING or (name in COPIES and _leaves(given, made)):
            self.seen.waits[name] += 1
        return result


def _leaves(given: list[torch.Tensor], made: list[torch.Tensor]) -> bool:
    """Return whether a copy brings a tensor from its device to the CPU."""
    devices = {x.device.type for x in given[-1:]}, {x.device.type for x in made}
    return devices[0] != {"cpu"} and devices[1] == {"cpu"}


@contextmanager
def watched() -> Iterator[Seen]:
    """Yield what the operators of the block do, those of its backward pass too."""
    seen = Seen()
    with _Watch(seen):
        yield seen


_register()
