"""The branches for GPUs, up to the calls that only a GPU answers."""

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler

from glassformer.data.batch import Batch, Counts
from glassformer.errors import SettingsError, TrainingError
from glassformer.model.build import build
from glassformer.train import distributed, gpu
from glassformer.train.distributed import CPU, World, spread, world
from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.gpu import gpu_record, kernels
from glassformer.train.optimizer import build_optimizers
from glassformer.train.precision import Precision, precision_on
from glassformer.train.start import check_spreading
from glassformer.train.state import Position, capture, restore
from glassformer.train.step import Objective, train_step
from train.runs import tiny

CUDA, MPS = torch.device("cuda", 1), torch.device("mps")
FP16, BF16 = torch.float16, torch.bfloat16
DATA = tiny(model={"dropout": 0.0})


@pytest.mark.parametrize("native", [True, False])
def test_precision_on_each_device(monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    best = BF16 if native else FP16
    assert precision_on(CUDA, "auto") == Precision(autocast=best, tf32=True)
    assert precision_on(CUDA, "fp16").scaler(CPU) is not None
    assert precision_on(CUDA, "bf16").scaler(CPU) is None
    assert precision_on(CUDA, "tf32") == Precision(tf32=True)
    assert precision_on(CUDA, "fp32") == precision_on(MPS, "auto") == Precision()
    assert precision_on(MPS, "bf16") == Precision(autocast=BF16)
    assert precision_on(CPU, "bf16") == Precision(products=BF16)
    for device, name in ((CPU, "tf32"), (CPU, "fp16"), (MPS, "fp16")):
        with pytest.raises(SettingsError, match=r"does not go with the device(.|\n)*for CUDA"):
            precision_on(device, name)


def test_batches_are_counted_pinned_and_copied_without_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []

    class Pinned:
        def to(self, device: torch.device, non_blocking: bool) -> torch.Tensor:
            calls.append((device, non_blocking))
            return torch.ones(1)

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: Pinned())
    monkeypatch.setattr(torch.cuda, "device", lambda which: torch.no_grad())
    one = Batch((torch.tensor([[4, 0]]),), torch.tensor([[4, -100]]))
    moved = one.to(CUDA)
    assert calls == [(CUDA, True)] * 2
    assert moved.counts == Counts(1, 1, 2)
    assert (moved.n_labels, moved.padding) == (1, (1, 2))
    assert one.to(CPU) is one


# fp16 with a scaled loss: torch has both on the CPU, where the same lines run


def half(scale: float = 2.0**10) -> tuple[Objective, list[torch.optim.Optimizer], GradScaler]:
    torch.manual_seed(0)
    model = build(DATA.settings.model)
    optimizers = build_optimizers(model, "muon", 0.01, 0.02, 0.01, (0.9, 0.98), BF16)
    return (
        Objective(model, 0.1, precision=Precision(autocast=FP16)),
        optimizers,
        GradScaler("cpu", init_scale=scale),
    )


def batches() -> list[Batch]:
    return [DATA.train.batch(torch.arange(12).numpy())]


def test_an_update_in_fp16_is_near_that_in_fp32() -> None:
    model, optimizers, scaler = half()
    full = Objective(build(DATA.settings.model), 0.1)
    full.model.load_state_dict(model.model.state_dict())
    others = build_optimizers(full.model, "muon", 0.01, 0.02, 0.01, (0.9, 0.98))
    scaled = train_step(model, optimizers, batches(), [1], 1.0, 1.0, scaler=scaler)
    plain = train_step(full, others, batches(), [1], 1.0, 1.0)
    assert scaled.loss == pytest.approx(plain.loss, rel=1e-2) and scaled.loss != plain.loss
    assert scaled.gradient_norm == pytest.approx(plain.gradient_norm, rel=2e-2)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_gradients_too_large_for_fp16_skip_an_update_and_lower_the_scale() -> None:
    model, optimizers, scaler = half(scale=2.0**40)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    update = train_step(model, optimizers, batches(), [1], 1.0, 1.0, scaler=scaler)
    assert update.skipped and update.gradient_norm == 0.0
    assert scaler.get_scale() == 2.0**39
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert gpu_record(CPU, scaler) == {"loss_scale": 2.0**39}


def test_gradients_that_no_scale_saves_end_the_run() -> None:
    model, optimizers, scaler = half(scale=1.0)
    next(iter(model.parameters())).data[5] = float("inf")
    with pytest.raises(TrainingError, match="None was made"):
        train_step(model, optimizers, batches(), [1], 1.0, 1.0, scaler=scaler)


def test_the_scale_of_the_loss_is_part_of_the_state() -> None:
    model, optimizers, scaler = half(scale=2.0**40)
    train_step(model, optimizers, batches(), [1], 1.0, 1.0, scaler=scaler)
    state = capture(model.model, optimizers, Position(), EarlyStopping("loss", None), None, scaler)
    again = GradScaler("cpu")
    restore(state, model.model, optimizers, again)
    assert again.get_scale() == scaler.get_scale()


# Kernels and the log


def test_kernels_are_chosen_for_the_run_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = torch.get_float32_matmul_precision()
    with kernels(CUDA, tf32=True, deterministic=True):
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert torch.get_float32_matmul_precision() == before
    assert not torch.are_deterministic_algorithms_enabled()
    with kernels(CPU, tf32=True, deterministic=True):
        assert torch.get_float32_matmul_precision() == before
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


def test_memory_and_utilisation_are_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**29)
    monkeypatch.setattr(torch.cuda, "utilization", lambda device: 97)
    monkeypatch.setattr(gpu, "is_installed", lambda package: package == "pynvml")
    assert gpu_record(CUDA, None) == {"gpu_memory_gib": 1.5, "gpu_utilisation": 0.97}
    assert gpu_record(CPU, None) == {}


# Several GPUs


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A process under torchrun that is number 3 of 4, and 1 on its machine with two GPUs."""
    calls: list[Any] = []
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(("set", device)))
    joins = lambda *args, **kwargs: calls.append(("join", *args, kwargs))  # noqa: E731
    monkeypatch.setattr(dist, "init_process_group", joins)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append("leave"))
    monkeypatch.setattr(dist, "get_rank", lambda: 3)
    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    return calls


def test_processes_on_gpus_talk_through_nccl_each_on_its_own(joined: list[Any]) -> None:
    with world("auto") as processes:
        assert processes == World(3, 4, CUDA)
    assert joined == [
        ("set", CUDA),
        ("join", "cpu:gloo,cuda:nccl", {"device_id": CUDA}),
        "leave",
    ]


def test_processes_on_cpus_talk_through_gloo(joined: list[Any]) -> None:
    with world("cpu") as processes:
        assert processes == World(3, 4, CPU)
    assert joined == [("join", "gloo", {}), "leave"]


def test_several_processes_on_mps_are_refused(
    joined: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(SettingsError, match="cannot train on 'mps'"), world("mps"):
        pass


def test_ddp_and_fsdp_are_given_the_gpu_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    model = build(DATA.settings.model)
    ddp = lambda module, device_ids: calls.append(device_ids)  # noqa: E731
    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", ddp)
    mesh = lambda kind, shape: calls.append((kind, shape))  # noqa: E731
    monkeypatch.setattr(distributed.dist.device_mesh, "init_device_mesh", mesh)
    monkeypatch.setattr("torch.distributed.fsdp.fully_shard", lambda module, mesh: module)
    objective = Objective(model, 0.1)
    for device in (CUDA, CPU):
        spread(objective, World(0, 2, device), fully_shard=False)
    assert spread(objective, World(0, 2, CUDA), fully_shard=True) is objective
    assert calls == [[CUDA], None, ("cuda", (2,))]


def test_a_scaled_loss_does_not_go_with_spread_weights() -> None:
    settings = DATA.settings.replace(train={"fully_shard": True}).train
    with pytest.raises(SettingsError, match=r"fp16(.|\n)*bf16"):
        check_spreading(settings, Precision(autocast=FP16))
    check_spreading(settings, Precision(autocast=BF16))
