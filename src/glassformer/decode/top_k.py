"""The k largest of many, when k is small: exact, and several times faster than sorting them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 64
FEW = 40_000  # values that are searched at once faster than chunk by chunk


def top_k(x: Float[Tensor, "*R V"], k: int) -> tuple[Float[Tensor, "*R k"], Int[Tensor, "*R k"]]:
    """Values and places of the k largest, the largest first.

    The k largest lie in the k chunks with the largest maxima (or in the rest that fills no chunk),
    so only those are searched.
    """
    n_chunks = x.size(-1) // CHUNK
    if n_chunks <= 2 * k or x.numel() <= FEW:
        return x.topk(k)
    whole = n_chunks * CHUNK
    chunks = x[..., :whole].unflatten(-1, (n_chunks, CHUNK))
    likely = chunks.amax(-1).topk(k, sorted=False).indices[..., None]  # (*R, k, 1)
    places = likely * CHUNK + torch.arange(CHUNK, device=x.device)  # (*R, k, CHUNK)
    found = chunks.gather(-2, likely.expand(*places.shape)).flatten(-2)
    places = places.flatten(-2)
    if whole < x.size(-1):
        rest = torch.arange(whole, x.size(-1), device=x.device)
        found = torch.cat((found, x[..., whole:]), -1)
        places = torch.cat((places, rest.expand(*x.shape[:-1], -1)), -1)
    values, order = found.topk(k)
    return values, places.gather(-1, order)
