"""GPUs in training: the kernels of a run, and memory and utilisation in its log."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.amp import GradScaler

from glassformer.extras import is_installed
from glassformer.train.log import Record

# cuBLAS has the same bits again only with a workspace of fixed size, which it reads once.
WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


@contextmanager
def kernels(device: torch.device, tf32: bool, deterministic: bool) -> Iterator[None]:
    """Choose CUDA's kernels for the length of a run; then restore the caller's choice."""
    if device.type != "cuda":
        yield
        return
    precision = torch.get_float32_matmul_precision()
    strict = torch.are_deterministic_algorithms_enabled()
    for name, value in WORKSPACE.items() if deterministic else ():
        os.environ.setdefault(name, value)
    try:
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.use_deterministic_algorithms(deterministic)
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(strict)


def gpu_record(device: torch.device, scaler: GradScaler | None) -> Record:
    """Return the fields of a log record that only a GPU has.

    gpu_memory_gib is the peak since the run began, gpu_utilisation the share of the last moments
    in which a kernel was running; for that one the package nvidia-ml-py must be installed.
    """
    record: Record = {}
    if scaler is not None:
        record["loss_scale"] = scaler.get_scale()
    if device.type == "cuda":
        record["gpu_memory_gib"] = round(torch.cuda.max_memory_allocated(device) / 2**30, 3)
        if is_installed("pynvml"):
            record["gpu_utilisation"] = torch.cuda.utilization(device) / 100
    return record
