"""Positions: every scheme, as up to three operations with plain defaults.

    embed(x, positions)                  added to the token's vector    sinusoidal, learned
    rotate(q, k, q_positions, ...)       rotates queries and keys       RoPE
    bias(q_positions, k_positions)       added to the scores            ALiBi, relative, T5

Schemes get absolute positions, not lengths, so they work with a cache. Only self-attention is
rotated and biased: source and target positions share no origin.
"""

from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.embedding import checks_indices

BASE = 10_000.0  # the longest wavelength is 2π times this, in the paper and in RoPE


class NoPositions(nn.Module):
    """No positions: the default of all three operations."""

    longest: int | None = None  # number of positions; None: any number

    def embed(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "T"]
    ) -> Float[Tensor, "B T D"]:
        return x

    def rotate(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B G S K"],
        q_positions: Int[Tensor, "T"],
        k_positions: Int[Tensor, "S"],
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G S K"]]:
        return q, k

    def bias(
        self, q_positions: Int[Tensor, "T"], k_positions: Int[Tensor, "S"]
    ) -> Float[Tensor, "H T S"] | None:
        return None


def angles(positions: Int[Tensor, "T"], width: int, base: float = BASE) -> Float[Tensor, "T W"]:
    """pos / base^(2i/width), an angle for each pair i of `width` values.

    In float64: the sine of a large position needs the digits.
    """
    precise = longest_float(positions.device)
    even = torch.arange(0, width, 2, dtype=precise, device=positions.device)
    return positions.to(precise)[:, None] / base ** (even / width)


def longest_float(device: torch.device) -> torch.dtype:
    """float64, or float32 on MPS, which has no longer one: sines of position 1,000 to 1e-4."""
    return torch.float32 if device.type == "mps" else torch.float64


def sinusoids(positions: Int[Tensor, "T"], d_model: int) -> Float[Tensor, "T D"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))  (§3.5).

    An odd width ends on a sine.
    """
    angle = angles(positions, d_model)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :d_model]


def sinusoids_in_halves(positions: Int[Tensor, "T"], d_model: int) -> Float[Tensor, "T D"]:
    """Return the features of `sinusoids` in another order: all sines, then all cosines."""
    pe = sinusoids(positions, d_model)
    return torch.cat((pe[:, 0::2], pe[:, 1::2]), dim=1)


class PositionalEncoding(NoPositions):
    """x + PE(pos). Computed, not looked up: there is no longest sequence."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def embed(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "T"]
    ) -> Float[Tensor, "B T D"]:
        return x + sinusoids(positions, self.d_model).to(x.dtype)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.embed(x, torch.arange(x.size(1), device=x.device))


class HalvesEncoding(PositionalEncoding):
    """x + PE(pos) with all sines before all cosines, as Marian has it; an odd width ends on one."""

    def embed(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "T"]
    ) -> Float[Tensor, "B T D"]:
        return x + sinusoids_in_halves(positions, self.d_model).to(x.dtype)


class LearnedPositions(NoPositions):
    """x + a learned row per position (§3.5 found it as good), up to `max_positions`."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        self.longest = max_positions

    def embed(
        self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "T"]
    ) -> Float[Tensor, "B T D"]:
        if checks_indices(positions.device) and int(positions.max()) >= self.weight.size(0):
            raise InputError(
                f"Position {int(positions.max())} is beyond the learned table.",
                f"It has rows for positions 0 to {self.weight.size(0) - 1}: what was never "
                "trained cannot be looked up.",
                "Shorten the input, build with a larger max_positions, or choose positions "
                "without a table (sinusoidal, rope, alibi).",
            )
        return x + F.embedding(positions, self.weight)


class RotaryEmbedding(NoPositions):
    """RoPE (Su et al., 2021): the pair (x₂ᵢ, x₂ᵢ₊₁) at position m turns by the angle m·θᵢ.

    The score of q at m and k at n then depends on m - n alone. With `halves`, a pair is
    (xᵢ, xᵢ₊ₖ/₂), as GPT-NeoX and Hugging Face's Llama have it.
    """

    def __init__(self, d_k: int, base: float = BASE, halves: bool = False) -> None:
        super().__init__()
        if d_k % 2:
            raise InputError(
                f"RoPE was given heads of width {d_k}.",
                "It turns pairs of values, so d_model / n_heads must be even.",
                "Choose d_model and n_heads with an even quotient, or other positions.",
            )
        self.d_k, self.base, self.halves = d_k, base, halves

    def rotate(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B G S K"],
        q_positions: Int[Tensor, "T"],
        k_positions: Int[Tensor, "S"],
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G S K"]]:
        return self.turn(q, q_positions), self.turn(k, k_positions)

    def turn(
        self, x: Float[Tensor, "B h T K"], positions: Int[Tensor, "T"]
    ) -> Float[Tensor, "B h T K"]:
        angle = angles(positions, self.d_k, self.base)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)  # (T, K/2)
        if self.halves:
            x1, x2 = x.chunk(2, dim=-1)
            return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1)
        x1, x2 = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1).flatten(-2)


class AlibiBias(NoPositions):
    """ALiBi (Press et al., 2021): a bias of -slope · distance, with a fixed slope per head."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(n_heads)  # no tensor: there is nothing to move or to load

    def bias(
        self, q_positions: Int[Tensor, "T"], k_positions: Int[Tensor, "S"]
    ) -> Float[Tensor, "H T S"]:
        distance = (k_positions - q_positions[:, None]).abs()
        distance = distance.to(longest_float(distance.device))
        return torch.stack([-slope * distance for slope in self.slopes])


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), …; for n between powers of two, the rest are from the next power's."""
    power = 1 << (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power + 1, 2)]
    return slopes + between[: n_heads - power]


class LearnedBias(NoPositions):
    """A learned scalar per head and bucket of signed distances; subclasses define the buckets."""

    def __init__(self, n_heads: int, n_buckets: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_buckets, n_heads))

    def buckets(self, distance: Int[Tensor, "T S"]) -> Int[Tensor, "T S"]:
        """Return the row of the table for each signed distance, key - query."""
        raise NotImplementedError

    def bias(
        self, q_positions: Int[Tensor, "T"], k_positions: Int[Tensor, "S"]
    ) -> Float[Tensor, "H T S"]:
        distance = k_positions - q_positions[:, None]
        return F.embedding(self.buckets(distance), self.weight).permute(2, 0, 1)


class RelativePositionBias(LearnedBias):
    """One bucket for each distance up to ±`max_distance`; larger distances are clipped.

    The clipping is Shaw et al.'s (2018); a scalar on the score instead of a vector in the key.
    """

    def __init__(self, n_heads: int, max_distance: int = 16) -> None:
        super().__init__(n_heads, 2 * max_distance + 1)
        self.max_distance = max_distance

    def buckets(self, distance: Int[Tensor, "T S"]) -> Int[Tensor, "T S"]:
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance


class BucketedRelativeBias(LearnedBias):
    """T5's (Raffel et al., 2020): a bucket for each near distance, logarithmic ones for far ones.

    `bidirectional` (an encoder) uses half of the buckets for keys after the query. A decoder has no
    such keys and uses all buckets for keys before it.
    """

    def __init__(
        self,
        n_heads: int,
        n_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
    ) -> None:
        super().__init__(n_heads, n_buckets)
        exact = n_buckets // 4 if bidirectional else n_buckets // 2
        if not 1 <= exact < max_distance:
            raise InputError(
                f"n_buckets = {n_buckets} does not go with max_distance = {max_distance}.",
                f"Distances below {exact} have a bucket each here; those from there to "
                "max_distance share the rest.",
                f"Use max_distance > {exact} and at least 4 buckets.",
            )
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.bidirectional = bidirectional

    def buckets(self, distance: Int[Tensor, "T S"]) -> Int[Tensor, "T S"]:
        n = self.n_buckets // 2 if self.bidirectional else self.n_buckets
        ahead = (distance > 0).long() * n if self.bidirectional else 0
        far = distance.abs() if self.bidirectional else (-distance).clamp(min=0)
        exact = n // 2
        growth = (far.clamp(min=1) / exact).log() / log(self.max_distance / exact)
        shared = (exact + (growth * (n - exact)).long()).clamp(max=n - 1)
        return ahead + torch.where(far < exact, far, shared)
