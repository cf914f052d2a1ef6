"""What decoding computes at every step, laid out for it: the same numbers, faster in few rows.

Large linear layers have their weights in oneDNN's own order, attention a kernel for few queries.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Optional, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.model.attention import (
    MultiHeadAttention,
    few_queries_attention,
    fused_attention,
)
from glassformer.model.replace import Fill, Heir, nothing, replace

TYPICAL_ROWS = 32  # for which the layout is chosen; it serves any number
SMALL = 1 << 16  # weights of a layer that gains nothing by it
# One row is multiplied by a kernel that reads weights more slowly than that for a few. Where they
# come from memory, not from a cache, a few copies of the row take less time than the row.
COPIES, CACHE = 4, 1 << 26  # rows, bytes


class PackedLinear(Heir):
    """y = x Wᵀ + b in fp32, for inference on CPU."""

    bias: Tensor | None
    _packed: Tensor

    def __init__(self, linear: nn.Linear, copies: int = 1) -> None:
        """Of a single row as many `copies` are multiplied."""
        super().__init__()
        self.copies = copies
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach()
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS)
        self.register_buffer("_packed", packed, persistent=False)
        bias = linear.bias.detach().clone() if linear.bias is not None else None
        self.register_buffer("bias", bias, persistent=False)
        _product()  # which is best compiled before threads ask for it

    @property
    def weight(self) -> Tensor:
        """A copy in the ordinary layout."""
        return self._packed.to_dense()

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if self.copies == 1 or x.numel() != self.in_features:
            return _product()(x, self._packed, self.bias)
        copies = x.reshape(1, -1).expand(self.copies, -1)
        return _product()(copies, self._packed, self.bias)[:1].view(*x.shape[:-1], -1)


@cache
def _product() -> Callable[..., Tensor]:
    """Compiled: a recording (`replay.py`) does not take an empty list from Python."""

    def product(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:  # noqa: UP045
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return cast("Callable[..., Tensor]", torch.jit.script(product))


def can_pack() -> bool:
    return torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)


def _is_streamed(model: nn.Module) -> bool:
    """Whether weights come from memory at every step, to kernels of which the above was seen."""
    linear = (module for module in model.modules() if isinstance(module, nn.Linear))
    n_bytes = sum(module.weight.nbytes for module in linear)
    return n_bytes > CACHE and torch.backends.cpu.get_cpu_capability() == "AVX512"


def pack(model: nn.Module, fill: Fill = nothing) -> nn.Module:
    """Change `model` for decoding in fp32 on CPU, and give it back. It cannot be trained after.

    `fill` gives each linear layer its weights just before it is packed, if it has none yet.
    """

    copies = COPIES if _is_streamed(model) else 1

    def convert(module: nn.Module, name: str) -> nn.Module | None:
        if not isinstance(module, nn.Linear) or module.weight.numel() <= SMALL:
            return None
        fill(module, name)
        return PackedLinear(module, copies)

    if can_pack():
        replace(model, convert)
    attend_with_few_queries(model)
    return model.eval()


def attend_with_few_queries(model: nn.Module) -> None:
    """Of the fused kernel's answers nothing changes; a kernel that was asked for by name stays."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention) and module.kernel is fused_attention:
            module.kernel = few_queries_attention
