"""Attention (§3.2): Equation 1, the same in one fused kernel, and multi-head attention.

A kernel is a function (q, k, v, mask, bias, dropout_p, scale) -> (output, weights or None).
`MultiHeadAttention` calls the kernel that it is given.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError, divisors
from glassformer.model.cache import KeyValueCache
from glassformer.model.dropout import check_probability, dropout
from glassformer.model.masks import check_mask

Kernel = Callable[..., tuple[Tensor, Tensor | None]]
Rotation = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S K"],
    mask: Tensor | None = None,
    bias: Float[Tensor, "*b H T S"] | None = None,
    dropout_p: float = 0.0,
    scale: float | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T S"]]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V: Equation 1, and its weights before dropout.

    `k` and `v` may have fewer heads than `q` (G, a divisor of H): H / G adjacent query heads share
    one. The output of a query that may attend nowhere is zero.
    """
    check_mask(mask, q, k)
    if k.size(1) != q.size(1):
        k, v = (x.repeat_interleave(q.size(1) // x.size(1), dim=1) for x in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / sqrt(q.size(-1)) if scale is None else scale)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is not None:  # the lowest finite value, not -inf: no NaN even where all is masked
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return dropout(weights, dropout_p) @ v, weights


def fused_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S K"],
    mask: Tensor | None = None,
    bias: Float[Tensor, "*b H T S"] | None = None,
    dropout_p: float = 0.0,
    scale: float | None = None,
) -> tuple[Float[Tensor, "B H T K"], None]:
    """Equation 1 through torch's fused (flash) kernel: the same output, memory linear in T + S.

    The kernel never stores the weights, so none are returned.
    """
    check_mask(mask, q, k)
    if bias is not None:
        bias = bias.to(q.dtype).expand(q.size(0), -1, -1, -1)
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    output = F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        dropout_p=dropout_p,
        scale=scale,
        enable_gqa=q.size(1) != k.size(1),
    )
    return output, None


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_H) W^O  (§3.2.2)
    where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)

    With `n_kv_heads` = `n_heads` it is the paper's attention (MHA), with 1 multi-query attention
    (MQA), with a divisor between them grouped-query attention (GQA). Self-attention projects one
    input, so W^Q, W^K and W^V are one matrix. With `cross=True`, queries are projected from `x`,
    keys and values from `memory`: two matrices.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        cross: bool = False,
        bias: bool = False,
        dropout: float = 0.0,
        scale: float | None = None,
        kernel: Kernel = fused_attention,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        _check_heads(d_model, n_heads, n_kv_heads)
        self.n_heads, self.n_kv_heads, self.cross = n_heads, n_kv_heads, cross
        self.d_k = d_model // n_heads
        self.dropout, self.scale, self.kernel = check_probability(dropout), scale, kernel
        kv_width = 2 * n_kv_heads * self.d_k
        if cross:
            self.q = nn.Linear(d_model, d_model, bias)
            self.kv = nn.Linear(d_model, kv_width, bias)
        else:
            self.qkv = nn.Linear(d_model, d_model + kv_width, bias)
        self.output = nn.Linear(d_model, d_model, bias)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Tensor | None = None,
        bias: Float[Tensor, "H T S"] | None = None,
        rotate: Rotation | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        if self.cross:
            q = self.split_heads(self.q(x))
            k, v = self.keys_values(memory) if cache is None else cache.read(q.dtype)
        else:
            if memory is not None:
                raise InputError(
                    "Self-attention was given memory.",
                    "It reads its keys and values from x; memory would be ignored.",
                    "Build it with cross=True, or leave memory out.",
                )
            widths = [self.n_heads, self.n_kv_heads, self.n_kv_heads]
            q, k, v = self.split_heads(self.qkv(x)).split(widths, dim=1)
            if rotate is not None:
                q, k = rotate(q, k)
            if cache is not None:
                k, v = cache.append(k, v)
        dropout_p = self.dropout if self.training else 0.0
        heads, _ = self.kernel(q, k, v, mask, bias, dropout_p, self.scale)
        return self.output(heads.transpose(1, 2).flatten(2))

    def keys_values(
        self, memory: Float[Tensor, "B S D"] | None
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Project the keys and values of cross-attention; they are the same at every step."""
        if memory is None:
            raise InputError(
                "Cross-attention was given neither memory nor a cache.",
                "Its keys and values come from the encoder's output.",
                "Pass memory=encoder(source), or build the decoder without cross-attention.",
            )
        k, v = self.split_heads(self.kv(memory)).chunk(2, dim=1)
        return k, v

    def split_heads(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B h T K"]:
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)


def _check_heads(d_model: int, n_heads: int, n_kv_heads: int) -> None:
    if n_heads < 1 or d_model % n_heads:
        raise InputError(
            f"d_model = {d_model} is not divisible by n_heads = {n_heads}.",
            "Each head has width d_k = d_model / n_heads.",
            f"Use n_heads from {divisors(d_model)}.",
        )
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise InputError(
            f"n_heads = {n_heads} is not divisible by n_kv_heads = {n_kv_heads}.",
            "Each key-value head serves n_heads / n_kv_heads query heads.",
            f"Use n_kv_heads from {divisors(n_heads)}.",
        )


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Return every attention of `model` by its name."""
    return {n: m for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)}


@contextmanager
def replaced_kernels(model: nn.Module, replace: Callable[[str, Kernel], Kernel]) -> Iterator[None]:
    """Use the kernel replace(name, kernel) in each attention of `model` inside the block."""
    kernels = {name: attention.kernel for name, attention in attentions(model).items()}
    try:
        for name, attention in attentions(model).items():
            attention.kernel = replace(name, kernels[name])
        yield
    finally:
        for name, attention in attentions(model).items():
            attention.kernel = kernels[name]


AttentionMaps = dict[str, list[Tensor]]


@contextmanager
def record_attention(model: nn.Module) -> Iterator[AttentionMaps]:
    """Use the readable kernel in every attention of `model` and collect the weights.

        with record_attention(model) as maps:
            model(source, target)
        maps["decoder.layers.0.cross_attention"][0]        # (B, H, T, S), one entry per call

    The weights are those before dropout; each row sums to 1, or to 0 if it may attend nowhere.
    Not for training: activation checkpointing would record each call twice.
    """
    maps: AttentionMaps = {}
    with replaced_kernels(model, lambda name, _: _recording(maps.setdefault(name, []))):
        yield maps


def _recording(maps: list[Tensor]) -> Kernel:
    def kernel(*args: Any) -> tuple[Tensor, Tensor]:
        output, weights = scaled_dot_product_attention(*args)
        maps.append(weights.detach())
        return output, weights

    return kernel
