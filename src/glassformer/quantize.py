"""Weights in eight bits: a scale per output channel, written as an ordinary checkpoint.

A row w of a matrix becomes integers in -127 … 127 times one scale, the row's largest magnitude over
127. `NAME.weight` then holds int8 and `NAME.weight.scale` float32. What is small, such as norms,
biases and tables of positions, stays in fp32. The engine quantises activations as it runs.

`glassformer.quantize(...)`, which writes a checkpoint, is `glassformer.api.quantize.quantize`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.callable_module import make_callable

SCALE = ".scale"  # suffix of the name under which the scales of a quantised tensor are stored
MIN_ROWS = 16  # a head over fewer classes stays in fp32
TINY = 1e-30  # the least scale times 127: a row of zeros has no largest magnitude


def quantise_rows(weight: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return integers and scales with weight ≈ integers · scale, one scale for each row."""
    weight = np.asarray(weight, np.float32)
    largest = np.abs(weight).max(1, initial=0.0)
    scale = np.maximum(largest, np.float32(TINY)) / np.float32(127)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def is_matrix(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether this weight of a checkpoint is stored in eight bits when it is quantised.

    These are the weights of linear layers, token embeddings and n-gram votes, not of positions.
    """
    if not name.endswith(".weight") or len(shape) != 2 or name.endswith("positions.weight"):
        return False
    return shape[0] >= MIN_ROWS or name == "votes.weight"


def quantise_weights(weights: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the weights of a checkpoint with every matrix in eight bits."""
    quantised: dict[str, NDArray[Any]] = {}
    for name in weights:
        array = np.asarray(weights[name])
        if is_matrix(name, array.shape):
            quantised[name], quantised[name + SCALE] = quantise_rows(array)
        else:
            quantised[name] = array
    return quantised


def is_quantised(weights: Mapping[str, Any]) -> bool:
    """Return whether these are weights that `quantise_weights` made."""
    return any(name.endswith(SCALE) for name in weights)


def dequantise_weights(weights: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return what `quantise_weights` made as fp32 weights; fp32 weights as they are."""
    return {
        name: np.asarray(weights[name]) * np.asarray(weights[name + SCALE])[:, None]
        if name + SCALE in weights
        else np.asarray(weights[name])
        for name in weights
        if not name.endswith(SCALE)
    }


make_callable(__name__, "glassformer.api.quantize", "quantize")
