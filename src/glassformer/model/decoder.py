"""The decoder: the right half of Figure 1."""

from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.model.attention import MultiHeadAttention, Rotation
from glassformer.model.cache import DecoderCache, KeyValueCache, LayerCache
from glassformer.model.masks import causal_mask
from glassformer.model.residual import ResidualFactory
from glassformer.model.stack import Stack


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder, then feed-forward (§3.1).

    Without `cross_attention` it is a layer of a language model.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        residual: ResidualFactory,
        cross_attention: MultiHeadAttention | None = None,
    ) -> None:
        super().__init__()
        self.self_attention, self.self_attention_residual = self_attention, residual()
        self.cross_attention = cross_attention
        if cross_attention is not None:
            self.cross_attention_residual = residual()
        self.feed_forward, self.feed_forward_residual = feed_forward, residual()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Tensor | None = None,
        rotate: Rotation | None = None,
        bias: Float[Tensor, "H T P"] | None = None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        own, source = (cache.self_attention, cache.cross_attention) if cache else (None, None)
        attend = partial(self.self_attention, mask=mask, rotate=rotate, bias=bias, cache=own)
        x = self.self_attention_residual(x, attend)
        if self.cross_attention is not None:
            attend = partial(self.cross_attention, memory=memory, mask=memory_mask, cache=source)
            x = self.cross_attention_residual(x, attend)
        return self.feed_forward_residual(x, self.feed_forward)

    def start_cache(
        self, rows: int, capacity: int, memory: Tensor | None, like: Tensor
    ) -> LayerCache:
        own, cross = self.self_attention, self.cross_attention
        return LayerCache(
            KeyValueCache.empty(rows, own.n_kv_heads, capacity, own.d_k, like),
            None if cross is None else KeyValueCache.full(*cross.keys_values(memory)),
        )


class TransformerDecoder(Stack):
    """Map token ids to one vector per token, computed from the tokens up to it and the source."""

    zero_start = False  # the first token, a begin mark, has a vector of zeros, as in Marian

    def embed_tokens(self, ids: Tensor, positions: Int[Tensor, "T"]) -> Float[Tensor, "B T D"]:
        x = super().embed_tokens(ids, positions)
        return x * (positions > 0)[:, None] if self.zero_start else x

    def forward(
        self,
        ids: Tensor,
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
        positions: Int[Tensor, "T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Compute the features of `ids`. Without a `mask`, attention is causal.

        With a `cache`, `ids` follow the cached tokens, and cross-attention reads the cached keys
        and values instead of `memory`. `positions` of the ids are consecutive unless given: the
        hypotheses of a beam all have the same one.
        """
        self._check_memory(memory, cache)
        length, past = ids.size(-1), cache.length if cache else 0
        q_positions = positions
        if q_positions is None:
            q_positions = torch.arange(past, past + length, device=ids.device)
        k_positions = cache.extend(q_positions) if cache else q_positions
        if mask is None and length > 1:  # a single query is last and may attend to all keys
            mask = causal_mask(length, past, ids.device)
        x = self.embed(ids, q_positions)
        rotate, bias = self.geometry(q_positions, k_positions)
        for i, layer in enumerate(self.layers):
            own = cache.layers[i] if cache else None
            x = self.run(layer, x, mask, rotate, bias, memory, memory_mask, own)
        return self.final_norm(x)

    def start_cache(
        self, capacity: int, memory: Float[Tensor, "B S D"] | None = None, batch: int = 1
    ) -> DecoderCache:
        """Allocate `capacity` target positions; project the source's keys and values once.

        The batch is that of `memory`, or `batch` for a language model.
        """
        self._check_memory(memory, None)
        like = next(self.parameters()) if memory is None else memory
        rows = batch if memory is None else memory.size(0)
        layers = cast("Sequence[DecoderLayer]", self.layers)
        caches = [layer.start_cache(rows, capacity, memory, like) for layer in layers]
        return DecoderCache(caches, torch.empty(0, dtype=torch.long, device=like.device))

    def _check_memory(self, memory: Tensor | None, cache: DecoderCache | None) -> None:
        has_cross = self.layers[0].cross_attention is not None
        if has_cross and memory is None and cache is None:
            raise InputError(
                "The decoder was given no memory.",
                "Its layers attend to the encoder's output.",
                "Pass memory=encoder(source), or build a language model, which has no "
                "cross-attention.",
            )
        if memory is not None and not has_cross:
            raise InputError(
                "The decoder was given memory and has no cross-attention to read it.",
                "It was built as a language model.",
                "Leave memory out, or build a translator.",
            )
