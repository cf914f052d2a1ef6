"""Attention rollout (Abnar and Zuidema, 2020): how much of each input token is in each position,
if attention were all that mixes them.

A layer's output is taken to be half what it attends to, the mean over its heads, and half what
came in by the residual connection; layers are multiplied. Norms, values and feed-forward layers are
not in it, so it is a sketch of the flow and no measurement. The step of cross-attention is the same
thought applied to the decoder: half of what comes out is the source's.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.inspect.maps import Attention


def rollout(attention: Attention) -> dict[str, Float[Tensor, "rows columns"]]:
    """By what was read, as far as the model has it:

    "encoder"             of each position of the source, by the tokens of the source
    "source", "target"    of each step, by the tokens of the source, and by what was read before;
                          a row of both together sums to 1
    """
    found: dict[str, Tensor] = {}
    if "encoder" in attention:
        found["encoder"] = _mixed(attention["encoder"])
    if "decoder" in attention:
        if "cross" in attention:
            found |= _decoded(attention["decoder"], attention["cross"], found["encoder"])
        else:
            found["target"] = _mixed(attention["decoder"])
    return found


def _identity(weights: Float[Tensor, "*L T T"]) -> Float[Tensor, "T T"]:
    return torch.eye(weights.size(-1), dtype=weights.dtype)


def _half(weights: Float[Tensor, "H T T"]) -> Float[Tensor, "T T"]:
    """Half the mean over heads, half the residual."""
    return (weights.mean(0) + _identity(weights)) / 2


def _mixed(layers: Float[Tensor, "L H T T"]) -> Float[Tensor, "T T"]:
    tokens = _identity(layers)
    for weights in layers:
        tokens = _half(weights) @ tokens
    return tokens


def _decoded(
    own: Float[Tensor, "L H T T"], cross: Float[Tensor, "L H T S"], source: Float[Tensor, "S S"]
) -> dict[str, Tensor]:
    by_target, by_source = _identity(own), cross.new_zeros(cross.shape[-2:])
    for weights, to_source in zip(own, cross, strict=True):
        mix = _half(weights)
        by_target, by_source = mix @ by_target, mix @ by_source
        by_target, by_source = by_target / 2, (by_source + to_source.mean(0) @ source) / 2
    return {"source": by_source, "target": by_target}
