"""Restore torch's seed and number of threads after a call of the public API."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def own_torch_state(device: "torch.device | None" = None) -> Iterator[None]:
    """Restore torch's seed and number of threads at the end of the block."""
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(
        devices=[device] if device is not None and device.type == "cuda" else []
    ):
        try:
            yield
        finally:
            torch.set_num_threads(threads)
