"""Statistics of attention rows: entropy, distance, share by position, divergence of heads."""

from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.inspect.maps import Kind

# Positions whose share of attention is measured. In a decoder, "same" is the latest input token.
PLACES: dict[Kind, tuple[str, ...]] = {
    "encoder": ("previous", "same", "next", "first", "last"),
    "decoder": ("previous", "same", "first"),
    "cross": ("first", "last"),
}
OFFSETS = {"previous": -1, "same": 0, "next": 1}


def entropy(weights: Float[Tensor, "*L T S"]) -> Float[Tensor, "*L T"]:
    """Return the entropy of each row in bits: 0 for one token, log2 n for n equal tokens."""
    return torch.special.entr(weights).sum(-1) / log(2)


def distance(weights: Float[Tensor, "*L T S"]) -> Float[Tensor, "*L T"]:
    """Return the mean distance in tokens from each row's own position to what it attends to.

    In cross-attention the own position lies on the diagonal, by the lengths of both sides.
    """
    rows, columns = weights.shape[-2:]
    own = torch.arange(rows) * ((columns - 1) / max(rows - 1, 1))
    offsets = (torch.arange(columns) - own[:, None]).abs()
    return (weights * offsets).sum(-1)


def share(weights: Float[Tensor, "*L T S"], place: str) -> Float[Tensor, "*L T"]:
    """Return each row's share of attention on a position; NaN where the position is missing."""
    if place not in OFFSETS:
        return weights[..., 0 if place == "first" else -1]
    found = weights.new_full(weights.shape[:-1], torch.nan)
    offset, columns = OFFSETS[place], weights.size(-1)
    rows = torch.arange(weights.size(-2))
    rows = rows[(rows + offset >= 0) & (rows + offset < columns)]
    found[..., rows] = weights[..., rows, rows + offset]
    return found


def measures(weights: Float[Tensor, "*L T S"], kind: Kind) -> dict[str, Float[Tensor, "*L T"]]:
    """Return all statistics of each row by name."""
    found = {"entropy": entropy(weights), "distance": distance(weights)}
    return found | {place: share(weights, place) for place in PLACES[kind]}


def jensen_shannon(p: Float[Tensor, "*L T S"], q: Float[Tensor, "*M T S"]) -> Float[Tensor, "*N T"]:
    """Return the Jensen–Shannon divergence of each row in bits: 0 for equal, 1 for disjoint."""
    return (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).clamp(0, 1)


def pairwise_divergence(weights: Float[Tensor, "N T S"]) -> Float[Tensor, "N N T"]:
    """Return the Jensen–Shannon divergence of every two heads in each row."""
    return torch.stack([jensen_shannon(weights, one) for one in weights])


def agreement(
    weights: Float[Tensor, "*L T S"], saliency: Float[Tensor, "T S"]
) -> Float[Tensor, "*L"]:
    """Return the mean share of attention on tokens whose saliency is for the row's token.

    It is between 0 and 1. A head that looks at the source of the token before has a low one.
    """
    positive = saliency.clamp(min=0)
    shares = positive / positive.sum(-1, keepdim=True).clamp(min=torch.finfo(positive.dtype).tiny)
    return (weights * shares).sum(-1).mean(-1)


def information(weights: Float[Tensor, "*L T S"]) -> Float[Tensor, "*L"]:
    """Return how much a row tells about its columns, in bits: their mutual information.

    Each row counts alike. It is 0 if all rows are equal, and large where rows are sharp and differ,
    as those of a head that aligns words.
    """
    return entropy(weights.mean(-2)) - entropy(weights).mean(-1)
