"""The paper's position layout turned into Marian's: the same function with features reordered.

The paper interleaves sines and cosines; Marian has all sines first. Nothing else in a Transformer
depends on the order of the features of its residual stream, so all matrices are reordered with it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config import ModelSettings

# Parts that read the residual stream (columns) or write to it (rows).
READERS: tuple[str, ...] = (
    "self_attention.qkv.weight",
    "cross_attention.q.weight",
    "cross_attention.kv.weight",
)
READERS += ("feed_forward.expand.weight", "embedding.weight")
WRITERS: tuple[str, ...] = ("attention.output.weight", "attention.output.bias")
WRITERS += ("feed_forward.contract.weight", "feed_forward.contract.bias")
WRITERS += ("norm.gain", "norm.bias")


def in_halves(
    settings: ModelSettings, weights: Mapping[str, NDArray[Any]]
) -> tuple[ModelSettings, dict[str, NDArray[Any]]]:
    """Return the settings and fp32 weights of the same function with `sinusoidal-halves`."""
    d = settings.d_model
    order = np.concatenate((np.arange(0, d, 2), np.arange(1, d, 2)))
    turned: dict[str, NDArray[Any]] = {}
    for name in weights:
        values = np.asarray(weights[name])
        if name.endswith(READERS) or name == "output.weight":
            values = values[:, order]
        elif name.endswith(WRITERS):
            values = values[order]
        turned[name] = np.ascontiguousarray(values)
    return settings.replace(positions="sinusoidal-halves"), turned
