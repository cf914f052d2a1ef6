"""Positions as tables: vectors for embeddings, angles of RoPE, biases of attention scores."""

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.config import ModelSettings
from glassformer.engine.checks import Tensors, checked
from glassformer.engine.shapes import BUCKETS, MAX_DISTANCE
from glassformer.engine.sizes import f32


class PositionTables(NamedTuple):
    """Tables by position; those that the scheme does not use are empty."""

    position_rows: NDArray[np.float32]  # (positions, D): to the embedding
    cos: NDArray[np.float32]  # (positions, K/2): the angle by which RoPE turns a head
    sin: NDArray[np.float32]
    position_bias: NDArray[np.float32]  # (H, 2 positions - 1): to scores, by key - query

    def addresses(self) -> dict[str, int]:
        tables = self._asdict().items()
        return {name: table.ctypes.data if table.size else 0 for name, table in tables}


def positions_of(s: ModelSettings, tensors: Tensors, n: int, stack: str) -> PositionTables:
    """Return the tables of `n` positions for the encoder or the decoder."""
    none, d_k = np.zeros((0, 0), np.float32), s.d_model // s.n_heads
    rows = cos = sin = bias = none
    if s.positions == "sinusoidal":
        angle = _angles(n, s.d_model)
        rows = np.stack((np.sin(angle), np.cos(angle)), -1).reshape(n, -1)[:, : s.d_model]
    elif s.positions == "sinusoidal-halves":
        angle = _angles(n, s.d_model)
        rows = np.concatenate((np.sin(angle), np.cos(angle)[:, : s.d_model // 2]), 1)
    elif s.positions == "learned":
        shape = (s.max_positions, s.d_model)
        rows = checked(tensors, f"{stack}.positions.weight", shape)[:n]
    elif s.positions == "rope":
        angle = _angles(n, d_k, s.rope_base)
        cos, sin = np.cos(angle), np.sin(angle)
    elif s.positions != "none":
        bias = _bias(s, tensors, np.arange(1 - n, n), stack)
    kept = (np.ascontiguousarray(table, np.float32) for table in (rows, cos, sin, bias))
    return PositionTables(*kept)


def _angles(n: int, width: int, base: float = 10_000.0) -> NDArray[np.float64]:
    """pos / base^(2i/width): see model/positions.py."""
    return np.arange(n)[:, None] / base ** (np.arange(0, width, 2) / width)


def _bias(
    s: ModelSettings, tensors: Tensors, distance: NDArray[np.int64], stack: str
) -> NDArray[Any]:
    """Return the bias of each head, (H, distances), by the distance of key and query."""
    if s.positions == "alibi":
        return -np.array(alibi_slopes(s.n_heads))[:, None] * np.abs(distance)
    if s.positions == "relative":
        most = s.max_distance or MAX_DISTANCE
        bucket, n_buckets = distance.clip(-most, most) + most, 2 * most + 1
    else:
        n_buckets = BUCKETS
        bucket = _t5_buckets(distance, n_buckets, s.max_distance or 128, stack == "encoder")
    table = checked(tensors, f"{stack}.positions.weight", (n_buckets, s.n_heads))
    return table[bucket].T


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), …; for n between powers of two, the rest are from the next power's."""
    power = 1 << (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power + 1, 2)]
    return slopes + between[: n_heads - power]


def _t5_buckets(
    distance: NDArray[np.int64], n_buckets: int, max_distance: int, both: bool
) -> NDArray[np.int64]:
    """T5's buckets: near distances one each, far ones shared logarithmically."""
    n = n_buckets // 2 if both else n_buckets
    ahead = (distance > 0) * n if both else 0
    far = np.abs(distance) if both else (-distance).clip(0)
    exact = n // 2
    growth = np.log((far.clip(1) / exact).astype(np.float32)) / f32(log(max_distance / exact))
    shared = (exact + (growth * f32(n - exact)).astype(np.int64)).clip(max=n - 1)
    return ahead + np.where(far < exact, far, shared)
