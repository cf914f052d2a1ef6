"""Products of shorter numbers. The weights, their gradients and the optimiser stay in fp32.

On a CPU weights are multiplied in bf16. Features inside a feed-forward network and logits in the
loss stay in bf16; the residual stream, norms and attention are in fp32. Autocast would put
attention and more into bf16, which a processor computes no faster, and casts back and forth. On a
GPU torch's autocast chooses, which the fused kernels of attention need; fp16 then has its loss
scaled, so that small gradients do not vanish.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from glassformer.errors import SettingsError
from glassformer.model.feed_forward import FeedForward, SwiGLUFeedForward
from glassformer.model.replace import replace


@dataclass(frozen=True)
class Precision:
    """The types that a run computes in; None is that of the weights."""

    products: torch.dtype | None = None  # of each linear layer, on a CPU
    autocast: torch.dtype | None = None  # of the forward pass, on a GPU
    tf32: bool = False  # fp32 factors are rounded to TF32 (10 bits), on CUDA

    @property
    def short(self) -> torch.dtype | None:
        """The type that Muon multiplies in."""
        return self.products or self.autocast

    @property
    def of_loss(self) -> torch.dtype | None:
        """The type of the output projection inside the loss.

        Not fp16: the loss takes its gradients as it is computed, before the scale is known.
        """
        return None if self.autocast is torch.float16 else self.autocast

    def casting(self, device: torch.device) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        return torch.autocast(device.type, self.autocast) if self.autocast else nullcontext()

    def scaler(self, device: torch.device) -> GradScaler | None:
        """Return what scales the loss, which fp16 alone needs."""
        return GradScaler(device.type) if self.autocast is torch.float16 else None


def precision_on(device: torch.device, name: str) -> Precision:
    """Return what `train.precision` means on a device; refuse what the device cannot do."""
    kind = device.type
    if kind == "cpu" and name in ("fp32", "bf16", "auto"):
        return Precision(products=products_of(name))
    if kind == "cuda":
        name = _best_on_cuda() if name == "auto" else name
    elif name == "auto":
        name = "fp32"
    valid = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16", "fp16")}
    if name not in valid.get(kind, ("fp32", "bf16")):
        raise SettingsError(
            f"train.precision = {name!r} does not go with the device {kind!r}.",
            "TF32 and fp16 with a scaled loss are for CUDA.",
            "Set train.precision = 'bf16', 'fp32' or 'auto'.",
        )
    autocast = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name)
    return Precision(autocast=autocast, tf32=kind == "cuda" and name != "fp32")


def _best_on_cuda() -> str:
    """bf16 where the GPU has instructions for it (compute capability 8.0), else fp16."""
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def products_of(precision: str) -> torch.dtype | None:
    """The type that a CPU multiplies weights in; None is their own."""
    able = torch.cpu.get_capabilities()
    if precision == "auto":
        precision = "bf16" if able.get("avx512_bf16") or able.get("amx_bf16") else "fp32"
    return torch.bfloat16 if precision == "bf16" else None


def shorten_products(model: nn.Module, products: torch.dtype) -> None:
    """Give every linear layer of `model`, its output too, products of this type.

    Inside a feed-forward network, where features are widest, they stay in that type.
    """

    def convert(module: nn.Module, name: str) -> nn.Module | None:
        return ShortLinear(module, products) if isinstance(module, nn.Linear) else None

    replace(model, convert)
    for module in model.modules():
        if isinstance(module, FeedForward | SwiGLUFeedForward):
            assert isinstance(module.expand, ShortLinear)
            module.expand.returns = products


class ShortLinear(nn.Linear):
    """y = x Wᵀ + b and its gradients by products of shorter numbers. The weights are the same."""

    def __init__(self, linear: nn.Linear, products: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.products = linear.weight, linear.bias, products
        self.returns = linear.weight.dtype

    def forward(self, x: Tensor) -> Tensor:
        args = x, self.weight, self.bias, self.products, self.returns
        y: Tensor = _Product.apply(*args)  # type: ignore[no-untyped-call]
        return y


class _Product(torch.autograd.Function):
    """x Wᵀ + b, forward and backward in `dtype`; gradients have the types of what they are of."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        dtype: torch.dtype,
        returns: torch.dtype,
    ) -> Tensor:
        short_x, short_weight = x.flatten(0, -2).to(dtype), weight.to(dtype)
        ctx.save_for_backward(short_x, short_weight)
        ctx.types, ctx.biased = (x.dtype, weight.dtype), bias is not None
        y = F.linear(short_x, short_weight, None if bias is None else bias.to(dtype))
        return y.to(returns).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        error = upstream[0].flatten(0, -2)
        by_bias = error.sum(0, dtype=ctx.types[1]) if ctx.biased else None
        error = error.to(x.dtype)
        by_x = (error @ weight).to(ctx.types[0]).view(*upstream[0].shape[:-1], -1)
        return by_x, (error.t() @ x).to(ctx.types[1]), by_bias, None, None
