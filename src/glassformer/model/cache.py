"""The key-value cache: keys and values of earlier positions, kept between decoding steps.

Self-attention appends the keys and values of each step to tensors of fixed capacity. Those of
cross-attention are computed from the source once. Rows are reordered without gradients.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.errors import InputError


class KeyValueCache:
    """Keys and values of one attention, (B, G, capacity, K) each; the first `length` are filled."""

    def __init__(
        self, k: Float[Tensor, "B G C K"], v: Float[Tensor, "B G C K"], length: int
    ) -> None:
        self.k, self.v, self.length = k, v, length

    @classmethod
    def empty(
        cls, batch: int, heads: int, capacity: int, d_k: int, like: Tensor
    ) -> "KeyValueCache":
        """Allocate `capacity` positions, with the dtype and device of `like`."""
        k, v = (like.new_empty(batch, heads, capacity, d_k) for _ in range(2))
        return cls(k, v, 0)

    @classmethod
    def full(cls, k: Float[Tensor, "B G S K"], v: Float[Tensor, "B G S K"]) -> "KeyValueCache":
        """Keep these keys and values, contiguous since every step reads them."""
        return cls(k.contiguous(), v.contiguous(), k.size(2))

    def append(
        self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T K"]
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Write the new positions behind the old ones and return all of them."""
        start, end = self.length, self.length + k.size(2)
        if end > self.k.size(2):
            raise InputError(
                f"The cache has a capacity of {self.k.size(2)} positions; {end} are needed.",
                "Its tensors are allocated once, so that a step copies nothing.",
                "Start it larger: start_cache(capacity=<longest output>).",
            )
        self.k[:, :, start:end], self.v[:, :, start:end] = k, v
        self.length = end
        return self.read(k.dtype)

    def read(self, dtype: torch.dtype) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Return the filled positions as `dtype`, which autocast may change."""
        k, v = self.k[:, :, : self.length], self.v[:, :, : self.length]
        return k.to(dtype), v.to(dtype)

    def reorder(self, rows: Int[Tensor, "R"]) -> None:
        """Make row r what row `rows[r]` was. Rows may be dropped or repeated."""
        self.k, self.v = self._select(self.k, rows), self._select(self.v, rows)

    def _select(self, x: Tensor, rows: Tensor) -> Tensor:
        """Copy the filled positions of these rows; the rest of the capacity stays unwritten."""
        selected = x.new_empty(len(rows), *x.shape[1:])
        selected[:, :, : self.length] = x[rows, :, : self.length]
        return selected


@dataclass
class LayerCache:
    """The caches of one decoder layer."""

    self_attention: KeyValueCache
    cross_attention: KeyValueCache | None


@dataclass
class DecoderCache:
    """The caches of all decoder layers, and the positions of the keys of self-attention."""

    layers: list[LayerCache]
    positions: Int[Tensor, "P"]

    @property
    def length(self) -> int:
        """Number of target tokens whose keys and values are cached."""
        return self.layers[0].self_attention.length

    def extend(self, positions: Int[Tensor, "T"]) -> Int[Tensor, "P"]:
        """Add the positions of the next tokens and return the positions of all keys."""
        self.positions = torch.cat((self.positions, positions))
        return self.positions

    def reorder(self, rows: Int[Tensor, "R"]) -> None:
        for cache in self._caches:
            cache.reorder(rows)

    @property
    def n_bytes(self) -> int:
        """Size of all keys and values, the unfilled capacity included."""
        return sum(cache.k.nbytes + cache.v.nbytes for cache in self._caches)

    @property
    def _caches(self) -> list[KeyValueCache]:
        both = [c for layer in self.layers for c in (layer.self_attention, layer.cross_attention)]
        return [cache for cache in both if cache is not None]
