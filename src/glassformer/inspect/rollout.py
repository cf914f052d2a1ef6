"""Attention rollout (Abnar and Zuidema, 2020): the share of each input token in each position.

Each layer is taken as half attention (mean over heads) and half residual, and layers are
multiplied. Values, norms and feed-forward layers are ignored, so it is an approximation. For
cross-attention the same rule applies: half of the output comes from the source.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.inspect.maps import Attention


def rollout(attention: Attention) -> dict[str, Float[Tensor, "rows columns"]]:
    """Return the rollout matrices that the model has:

    "encoder"             each source position by source tokens
    "source", "target"    each step by source tokens and by decoder inputs; a row of both together
                          sums to 1
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
    """Average the mean over heads and the residual."""
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
