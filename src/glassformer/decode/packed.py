"""What decoding computes at every step, laid out for it: the same numbers, faster in few rows.

Large linear layers have their weights in oneDNN's own order, attention a kernel for few queries. A
table of embeddings that is also the output projection (§3.4) is read where that one has it.
"""

import ctypes
import warnings
from collections.abc import Callable
from functools import cache
from math import ceil
from typing import Any, Optional, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.model.attention import (
    MultiHeadAttention,
    few_queries_attention,
    fused_attention,
)
from glassformer.model.decoder import TransformerDecoder
from glassformer.model.embedding import TokenEmbedding, check_ids
from glassformer.model.replace import Fill, Heir, nothing, replace

_ops = torch.ops.mkldnn
TYPICAL_ROWS = 32  # for which the layout is chosen; it serves any number
SMALL = 1 << 16  # weights of a layer that gains nothing by it
# One row is multiplied by a kernel that reads weights more slowly than that for a few. Where they
# come from memory, not from a cache, a few copies of the row take less time than the row.
COPIES, CACHE = 6, 1 << 26  # rows, bytes
LARGE = 1 << 25  # bytes of weights that do not stay in a cache from step to step
BLOCKS = 64, 48, 32, 24, 16, 8  # outputs that oneDNN may keep side by side


class PackedLinear(Heir):
    """y = x Wᵀ + b in fp32, for inference on CPU."""

    bias: Tensor | None
    _packed: Tensor
    itemsize = 4  # bytes of a weight

    def __init__(self, linear: nn.Linear, copies: int = 1) -> None:
        """Of a single row as many `copies` are multiplied."""
        super().__init__()
        self.copies = copies
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach()
        packed = _ops._reorder_linear_weight(weight, TYPICAL_ROWS)
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


class PackedEmbedding(Heir):
    """A `TokenEmbedding` without a table of its own: it reads that of a `PackedLinear`.

    oneDNN keeps the weights of some outputs side by side, input after input, then those of the next
    (`_blocks`). An output is a token here, and its column a row of the table.
    """

    _blocks: Tensor

    def __init__(self, embedding: TokenEmbedding, blocks: Float[Tensor, "N D n"]) -> None:
        super().__init__()
        self.vocab_size, self.scale = embedding.vocab_size, embedding.scale
        self.register_buffer("_blocks", blocks, persistent=False)

    @property
    def weight(self) -> Tensor:
        """A copy in the ordinary layout."""
        return rows_of(self._blocks, torch.arange(self.vocab_size))

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        check_ids(ids, self.vocab_size)
        return rows_of(self._blocks, ids) * self.scale


def rows_of(blocks: Float[Tensor, "N D n"], ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
    width = blocks.size(2)
    return blocks[ids // width, :, ids % width]


def blocks_of(packed: Tensor, like: Float[Tensor, "O I"]) -> Float[Tensor, "N I n"] | None:
    """The memory of packed weights, if it is in an order that is known: these are the weights."""
    outputs, inputs = like.shape
    there = (ctypes.c_char * _ops._nbytes(packed)).from_address(_ops.data_ptr(packed))
    there.owner = packed  # lives as long as somebody looks at it
    memory = torch.frombuffer(there, dtype=like.dtype)
    some = torch.linspace(0, outputs - 1, 100).long()  # whose order is everybody's
    for width in BLOCKS:
        blocks = ceil(outputs / width)
        depth, rest = divmod(memory.numel(), blocks * width)
        if rest == 0 and depth >= inputs:  # what is more is there to fill a whole number of vectors
            view = memory.view(blocks, depth, width)[:, :inputs]
            if rows_of(view, some).equal(like[some]):
                return view
    return None


@cache
def _product() -> Callable[..., Tensor]:
    """Compiled: a recording (`replay.py`) does not take an empty list from Python."""

    def product(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:  # noqa: UP045
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return cast("Callable[..., Tensor]", torch.jit.script(product))


def linear_layers(model: nn.Module) -> list[Any]:
    """Those of a model, in whatever layout."""
    return [module for module in model.modules() if hasattr(module, "in_features")]


def n_bytes(model: nn.Module) -> int:
    """What the weights of all linear layers take."""
    layers = linear_layers(model)
    return sum(m.in_features * m.out_features * getattr(m, "itemsize", 4) for m in layers)


def can_pack() -> bool:
    return torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)


def _is_streamed(model: nn.Module) -> bool:
    """Whether weights come from memory at every step, to kernels of which the above was seen."""
    return n_bytes(model) > CACHE and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _tied_outputs(model: nn.Module) -> dict[nn.Module, str]:
    """The name of the linear layer that has the table of an embedding."""
    linear = {id(m.weight): name for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    tables = [m for m in model.modules() if isinstance(m, TokenEmbedding)]
    return {m: linear[id(m.weight)] for m in tables if id(m.weight) in linear}


def pack(model: nn.Module, fill: Fill = nothing) -> nn.Module:
    """Change `model` for decoding in fp32 on CPU, and give it back. It cannot be trained after.

    `fill` gives each linear layer its weights just before it is packed, if it has none yet.
    """

    copies = COPIES if _is_streamed(model) else 1
    outputs = _tied_outputs(model)

    def convert(module: nn.Module, name: str) -> nn.Module | None:
        if not isinstance(module, nn.Linear) or module.weight.numel() <= SMALL:
            return None
        fill(module, name)
        return PackedLinear(module, copies)

    def share(module: nn.Module, name: str) -> nn.Module | None:
        output = model.get_submodule(outputs[module]) if module in outputs else None
        if not isinstance(module, TokenEmbedding) or not isinstance(output, PackedLinear):
            return None
        fill(module, name)
        blocks = blocks_of(output._packed, module.weight.detach())
        return None if blocks is None else PackedEmbedding(module, blocks)

    if can_pack():
        replace(model, convert)
        replace(model, share)
    attend_with_few_queries(model)
    return model.eval()


def keep_half(model: nn.Module) -> None:
    """Keys and values of a large model in 16 bits, where its products are in eight.

    They are half as much to fetch from memory at every step. Each is rounded by a 2,048th at most,
    which is little beside a 126th of the largest of a row, by which products round their inputs.
    """
    if n_bytes(model) > LARGE:
        for module in model.modules():
            if isinstance(module, TransformerDecoder):
                module.kept_as = torch.float16


def attend_with_few_queries(model: nn.Module) -> None:
    """Of the fused kernel's answers nothing changes; a kernel that was asked for by name stays."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention) and module.kernel is fused_attention:
            module.kernel = few_queries_attention
