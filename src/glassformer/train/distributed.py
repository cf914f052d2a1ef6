"""One process or many: who I am, what we add up, and weights that may be spread over all of us.

torchrun starts the processes and says who is who; without it there is one. Processes on CPUs talk
through gloo. On GPUs gradients and weights go through NCCL, and the few numbers of `World.sum`
through gloo still: a process may wait for the first one's validation longer than NCCL allows.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from glassformer.device import resolve
from glassformer.errors import GlassformerError, SettingsError
from glassformer.model.stack import Stack

T = TypeVar("T")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class World:
    rank: int = 0
    size: int = 1
    device: torch.device = CPU  # of this process's model

    @property
    def leads(self) -> bool:
        """Return whether this process writes files and prints."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Each value added up over all processes."""
        if self.size == 1:
            return list(values)
        totals = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(totals)
        return totals.tolist()

    def any(self, value: bool) -> bool:
        return self.sum(float(value))[0] > 0

    def lead(self, work: Callable[[], T]) -> T | None:
        """Let one process do some work while the others wait; return its result there.

        If it fails, that process reports the error, and the others end without a word.
        """
        if self.leads:
            try:
                done = work()
            except GlassformerError as error:
                self.sum(error.exit_code)
                raise
            self.sum(0)
            return done
        (code,) = self.sum(0)
        if code:
            sys.exit(int(code))
        return None

    def first_alone(self, work: Callable[[], T]) -> T:
        """Do work whose result is kept on disk: one process first, the others then find it done."""
        done = self.lead(work)
        return cast(T, done) if self.leads else work()


ALONE = World()


@contextmanager
def world(device: str = "cpu") -> Iterator[World]:
    """The processes that torchrun started, each on a device, joined for the length of the block.

    With CUDA, process n of a machine takes GPU n.
    """
    if "RANK" not in os.environ:
        yield World(device=resolve(device))
        return
    own = resolve(device, rank=int(os.environ.get("LOCAL_RANK", "0")))
    if own.type == "cuda":
        torch.cuda.set_device(own)
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=own)
    elif own.type == "cpu":
        dist.init_process_group("gloo")
    else:
        raise SettingsError(
            f"Several processes cannot train on {own.type!r}.",
            "torch has no way for them to talk there.",
            "Start one process, or set train.device = 'cpu'.",
        )
    try:
        yield World(dist.get_rank(), dist.get_world_size(), own)
    finally:
        dist.destroy_process_group()


def spread(objective: nn.Module, world: World, fully_shard: bool) -> nn.Module:
    """The module to call in training: itself alone, in DDP, or sharded by FSDP2 layer by layer."""
    if world.size == 1:
        return objective
    if not fully_shard:
        ids = [world.device] if world.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(objective, device_ids=ids)
    from torch.distributed.fsdp import fully_shard as shard

    mesh = dist.device_mesh.init_device_mesh(world.device.type, (world.size,))
    for stack in [m for m in objective.modules() if isinstance(m, Stack)]:
        for layer in stack.layers:
            shard(layer, mesh=mesh)
    shard(objective, mesh=mesh)  # in place
    return objective


def whole(tensor: Tensor) -> Tensor:
    """A tensor gathered from all processes, each of which must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, pattern: Any) -> Tensor:
    """A whole tensor, which every process has, spread as `pattern` is."""
    if not isinstance(pattern, DTensor):
        return tensor
    return distribute_tensor(
        tensor.to(pattern.device), pattern.device_mesh, pattern.placements, src_data_rank=None
    )
