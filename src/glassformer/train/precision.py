"""Products of shorter numbers: bf16 where weights are multiplied, fp32 everywhere else.

Autocast would also put attention and much of what is between the products into bf16, which a
processor computes no faster, and casts back and forth.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from glassformer.model.replace import replace


def products_of(precision: str) -> torch.dtype | None:
    """The type that `train.precision` has weights multiplied in; None is their own."""
    able = torch.cpu.get_capabilities()
    if precision == "auto":
        precision = "bf16" if able.get("avx512_bf16") or able.get("amx_bf16") else "fp32"
    return torch.bfloat16 if precision == "bf16" else None


def shorten_products(model: nn.Module, products: torch.dtype) -> None:
    """Give every linear layer of `model`, its output too, products of this type."""

    def convert(module: nn.Module, name: str) -> nn.Module | None:
        return ShortLinear(module, products) if isinstance(module, nn.Linear) else None

    replace(model, convert)


class ShortLinear(nn.Linear):
    """y = x Wᵀ + b and its gradients by products of shorter numbers. The weights are the same."""

    def __init__(self, linear: nn.Linear, products: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.products = linear.weight, linear.bias, products

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = _Product.apply(x, self.weight, self.products)  # type: ignore[no-untyped-call]
        return y if self.bias is None else y + self.bias


class _Product(torch.autograd.Function):
    """x Wᵀ, forward and backward in `dtype`; what goes in and comes out keeps its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        short_x, short_weight = x.flatten(0, -2).to(dtype), weight.to(dtype)
        ctx.save_for_backward(short_x, short_weight)
        ctx.types = x.dtype, weight.dtype
        return (short_x @ short_weight.t()).to(x.dtype).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        error = upstream[0].flatten(0, -2).to(x.dtype)
        by_x = (error @ weight).to(ctx.types[0]).view(*upstream[0].shape[:-1], -1)
        return by_x, (error.t() @ x).to(ctx.types[1]), None
