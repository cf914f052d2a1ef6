"""Attention masks.

A mask is boolean, `True` = may attend, of shape (B or 1, 1, T or 1, S). It is made here once per
batch and passed down as an argument. Masks combine with `&`:

    padding_mask(ids) & causal_mask(ids.size(1))      a decoder's mask: `target_mask(ids)`
"""

import torch
from jaxtyping import Bool
from torch import Tensor

from glassformer.errors import InputError


def padding_mask(ids: Tensor, pad_id: int = 0) -> Bool[Tensor, "B 1 1 S"]:
    """Let every query attend to every token but padding."""
    check_id_shape(ids)
    return (ids != pad_id)[:, None, None, :]


def causal_mask(
    length: int, past: int = 0, device: torch.device | None = None
) -> Bool[Tensor, "1 1 T S"]:
    """Let position i attend to j ≤ i (§3.2.3). `past` cached keys precede the first query."""
    queries = torch.arange(past, past + length, device=device)
    keys = torch.arange(past + length, device=device)
    return (keys <= queries[:, None])[None, None]


def target_mask(ids: Tensor, pad_id: int = 0, begin_mark: bool = False) -> Bool[Tensor, "B 1 T T"]:
    """Let position i attend to j ≤ i but not to padding.

    With `begin_mark` the first token is no padding: in Marian and T5 it has the id of padding.
    """
    mask = padding_mask(ids, pad_id)
    if begin_mark:
        mask = mask | (torch.arange(ids.size(1), device=ids.device) == 0)
    return mask & causal_mask(ids.size(1), device=ids.device)


def check_id_shape(ids: Tensor) -> None:
    if ids.dim() != 2 or ids.dtype not in (torch.int32, torch.int64):
        raise InputError(
            f"The token ids have shape {tuple(ids.shape)} and dtype {ids.dtype}.",
            "They are integers of shape (batch, length).",
            "Pass ids.long(), and ids[None] for a single sentence.",
        )


def check_mask(mask: Tensor | None, q: Tensor, k: Tensor) -> None:
    """Refuse a mask that would be broadcast over the wrong axis: training would silently suffer.

    Keys are never broadcast, so a padding mask laid along the queries (B, 1, S, 1) cannot pass.
    """
    if mask is None:
        return
    (batch, _, queries, _), keys = q.shape, k.size(2)
    if (
        mask.dtype == torch.bool
        and mask.dim() == 4
        and mask.size(0) in (1, batch)
        and mask.size(1) == 1
        and mask.size(2) in (1, queries)
        and mask.size(3) == keys
    ):
        return
    rule = f"(batch or 1, 1, query or 1, key) = ({batch} or 1, 1, {queries} or 1, {keys})"
    if mask.dtype != torch.bool:
        raise InputError(
            f"The attention mask has dtype {mask.dtype}, shape {tuple(mask.shape)}.",
            f"A mask is boolean, True = may attend, of shape {rule}; a float mask may mean "
            "either thing.",
            "Pass mask.bool(), or `mask == 0` if yours holds 0 and -inf.",
        )
    if mask.dim() != 4:
        raise InputError(
            f"The attention mask has shape {tuple(mask.shape)}, {mask.dim()} dimensions.",
            f"It needs 4, {rule}: fewer would be broadcast over an axis of torch's choice.",
            "Make it with padding_mask(ids), causal_mask(length) or both joined by `&`.",
        )
    raise InputError(
        f"The attention mask has shape {tuple(mask.shape)}, the scores "
        f"{(batch, q.size(1), queries, keys)}.",
        f"A mask has shape {rule}.",
        "Make it from the ids of the keys: padding_mask(ids), and causal_mask(length, past) for a "
        "decoder.",
    )
