"""INT8 for inference: weights in eight bits per output channel, activations as they come.

A weight row w becomes integers in -127 … 127 times one scale. An input row x is divided by its own
largest magnitude and rounded to 127 levels; the products are summed exactly, in 32-bit integers,
by torch's FBGEMM kernels. As every row has its own scale, what is said to a sentence does not hang
on the sentences beside it, but for the rounding of fp32 in between: where it moves a value over a
level, a score moves by a few hundredths, and hardly ever the text.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.embedding import TokenEmbedding, check_ids
from glassformer.model.feed_forward import FeedForward
from glassformer.model.ngrams import NgramVotes
from glassformer.model.replace import Fill, Heir, nothing, replace

ENGINE = "fbgemm"
SCALE = ".scale"  # a quantised tensor's scales lie beside it under its name and this
LEVELS = 63  # of either sign: with more, pairs of products overflow on processors without VNNI
SMALLEST = 16  # rows of a matrix that is worth quantising: a head over a few classes is not
TINY = 1e-30  # a row of zeros has no scale


def quantise_rows(weight: Float[Tensor, "O I"]) -> tuple[Int[Tensor, "O I"], Float[Tensor, "O"]]:
    """Integers and scales with weight ≈ integers · scale, each row with its own."""
    scale = weight.abs().amax(1).clamp(min=TINY) / 127
    return (weight / scale[:, None]).round_().to(torch.int8), scale


def _rows(module: nn.Linear | TokenEmbedding | NgramVotes) -> tuple[Tensor, Tensor]:
    """Of a layer that holds fp32, or integers and `row_scale` of a quantised checkpoint."""
    weight = module.weight.detach()
    if weight.dtype == torch.int8:
        return weight, cast(Tensor, module.row_scale)
    return quantise_rows(weight.float())


def is_available() -> bool:
    return ENGINE in torch.backends.quantized.supported_engines


@contextmanager
def _engine() -> Iterator[None]:
    """FBGEMM lays out the weights, whatever engine the user's program has chosen."""
    if not is_available():
        raise InputError(
            "INT8 is not available on this machine.",
            "It runs on torch's FBGEMM kernels, which need an x86 processor with AVX2.",
            "Leave int8 out: fp32 gives the same answers.",
        )
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = ENGINE
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


def _pack(integers: Int[Tensor, "O I"], scale: Float[Tensor, "O"]) -> Any:
    zeros = torch.zeros(len(scale), dtype=torch.long)
    with _engine(), warnings.catch_warnings():  # these tensors are to go, their kernels are not
        warnings.simplefilter("ignore", UserWarning)
        weight = torch._make_per_channel_quantized_tensor(integers, scale.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(weight, None)


class Int8Linear(Heir):
    """y = x Wᵀ + b with W and each row of x in eight bits. All that touches torch's kernel."""

    bias: Tensor | None
    itemsize = 1  # bytes of a weight

    def __init__(self, linear: nn.Linear, positive: bool = False) -> None:
        """`positive`: no input is below 0, as none is behind max(0, x)."""
        super().__init__()
        self.positive = positive
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._packed = _pack(*_rows(linear))
        bias = linear.bias.detach().clone() if linear.bias is not None else None
        self.register_buffer("bias", bias, persistent=False)

    @property
    def weight(self) -> Tensor:
        """A copy in fp32."""
        return torch.ops.quantized.linear_unpack(self._packed)[0].dequantize()

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        sizes = x if self.positive else x.abs()
        largest = sizes.amax(-1, keepdim=True).clamp_(min=TINY)
        y = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / largest, 1 / LEVELS, LEVELS + 1, self._packed
        )
        return y.mul_(largest) if self.bias is None else torch.addcmul(self.bias, y, largest)


class Int8Embedding(Heir):
    """A `TokenEmbedding` whose table is in eight bits, a scale per token."""

    integers: Tensor
    row_scale: Tensor

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        integers, scale = _rows(embedding)
        self.register_buffer("integers", integers.clone(), persistent=False)
        self.register_buffer("row_scale", scale * embedding.scale, persistent=False)
        self.scale = embedding.scale

    @property
    def weight(self) -> Tensor:
        """A copy in fp32."""
        return self.integers * (self.row_scale / self.scale)[:, None]

    @property
    def vocab_size(self) -> int:
        return self.integers.size(0)

    def forward(self, ids: Tensor) -> Float[Tensor, "B T D"]:
        check_ids(ids, self.vocab_size)
        return F.embedding(ids, self.integers) * self.row_scale[ids][..., None]


class Int8Votes(NgramVotes):
    """`NgramVotes` in eight bits, a scale per class."""

    integers: Tensor
    row_scale: Tensor

    def __init__(self, votes: NgramVotes) -> None:
        nn.Module.__init__(self)
        self.vocab_size, self.longest, self.places = votes.vocab_size, votes.longest, votes.places
        self.pad_id = votes.pad_id
        integers, scale = _rows(votes)
        self.register_buffer("integers", integers.clone(), persistent=False)
        self.register_buffer("row_scale", scale.clone(), persistent=False)
        self.register_buffer("kinds", votes.kinds.detach().clone(), persistent=False)

    def votes(self, places: Int[Tensor, "B N"]) -> Float[Tensor, "C B N"]:
        return self.integers[:, places] * self.row_scale[:, None, None]


def quantize(model: nn.Module, fill: Fill = nothing) -> nn.Module:
    """Change `model` for INT8 inference on CPU, and give it back. It cannot be trained after.

    `fill` gives each large layer its weights just before it is quantised, if it has none yet.
    """

    behind_relu: set[str] = set()

    def convert(module: nn.Module, name: str) -> nn.Module | None:
        if type(module) is FeedForward:
            behind_relu.add(f"{name}.contract")
        if isinstance(module, nn.Linear) and module.out_features >= SMALLEST:
            fill(module, name)
            return Int8Linear(module, positive=name in behind_relu)
        if isinstance(module, NgramVotes):
            fill(module, name)
            return Int8Votes(module)
        if isinstance(module, TokenEmbedding):
            fill(module, name)
            return Int8Embedding(module)
        return None

    replace(model.eval(), convert)
    return model


def quantise_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of `model`'s checkpoint in eight bits; the small rest stays as it is."""
    kinds = dict(model.named_modules())
    quantised: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        owner = kinds[name.rpartition(".")[0]]
        matrix = isinstance(owner, nn.Linear | TokenEmbedding) and tensor.size(0) >= SMALLEST
        if name.endswith(".weight") and (matrix or isinstance(owner, NgramVotes)):
            quantised[name], quantised[name + SCALE] = quantise_rows(tensor.float())
        else:
            quantised[name] = tensor
    return quantised


def is_quantised(weights: Mapping[str, Tensor]) -> bool:
    return any(name.endswith(SCALE) for name in weights)


def dequantise_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `quantise_weights` made, as ordinary weights again."""
    scales = {name: weights[name] for name in weights if name.endswith(SCALE)}
    return {
        name: weights[name] * scales[name + SCALE][:, None]
        if name + SCALE in scales
        else weights[name]
        for name in weights
        if name not in scales
    }
