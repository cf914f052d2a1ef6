"""What a head is like, in figures: how sharp it is, how far it looks, and where to."""

from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.inspect.maps import Kind

# Where a head may look by position alone. Of a decoder, "same" is the token read last.
PLACES: dict[Kind, tuple[str, ...]] = {
    "encoder": ("previous", "same", "next", "first", "last"),
    "decoder": ("previous", "same", "first"),
    "cross": ("first", "last"),
}
OFFSETS = {"previous": -1, "same": 0, "next": 1}


def entropy(weights: Float[Tensor, "*L T S"]) -> Float[Tensor, "*L T"]:
    """Of each row, in bits: 0 looks at one token, log2 n at n of them alike."""
    return torch.special.entr(weights).sum(-1) / log(2)


def distance(weights: Float[Tensor, "*L T S"]) -> Float[Tensor, "*L T"]:
    """Of each row, how many tokens away from its own place it looks, on average.

    In cross-attention a row's own place is on the diagonal, by the lengths of both sides.
    """
    rows, columns = weights.shape[-2:]
    own = torch.arange(rows) * ((columns - 1) / max(rows - 1, 1))
    away = (torch.arange(columns) - own[:, None]).abs()
    return (weights * away).sum(-1)


def share(weights: Float[Tensor, "*L T S"], place: str) -> Float[Tensor, "*L T"]:
    """Of each row, the share of attention on a place; not a number where there is no such place."""
    if place not in OFFSETS:
        return weights[..., 0 if place == "first" else -1]
    found = weights.new_full(weights.shape[:-1], torch.nan)
    offset, columns = OFFSETS[place], weights.size(-1)
    rows = torch.arange(weights.size(-2))
    rows = rows[(rows + offset >= 0) & (rows + offset < columns)]
    found[..., rows] = weights[..., rows, rows + offset]
    return found


def measures(weights: Float[Tensor, "*L T S"], kind: Kind) -> dict[str, Float[Tensor, "*L T"]]:
    """Everything of each row."""
    found = {"entropy": entropy(weights), "distance": distance(weights)}
    return found | {place: share(weights, place) for place in PLACES[kind]}


def disagreement(weights: Float[Tensor, "N T S"]) -> Float[Tensor, "N N T"]:
    """Jensen–Shannon divergence of every two heads in each row, in bits: 0 alike, 1 disjoint."""
    own = entropy(weights)
    of_means = torch.stack([entropy((weights + one) / 2) for one in weights])
    return (of_means - (own + own[:, None]) / 2).clamp(min=0)
