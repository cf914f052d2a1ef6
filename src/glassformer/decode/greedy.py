"""Greedy decoding: the likeliest token at every step."""

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.decode.session import Session, output_limit
from glassformer.model.transformer import Transformer


@torch.inference_mode()
def greedy(
    model: Transformer,
    source: Int[Tensor, "B S"],
    bos: int,
    eos: int,
    max_length: int | None = None,
) -> list[list[int]]:
    """What the model says to each source, without the marks. Finished rows leave the batch."""
    limit = max_length or output_limit(source.size(1))
    session = Session(model, source, limit)
    said: list[list[int]] = [[] for _ in source]
    rows = torch.arange(len(source))  # whose turn each row of the session is
    ids = torch.full((len(source),), bos)
    for _ in range(limit):
        ids = session.step(ids).argmax(-1)
        going = (ids != eos).nonzero().squeeze(1)
        if len(going) < len(ids):
            session.keep(going)
            rows, ids = rows[going], ids[going]
        if not len(rows):
            break
        for row, token in zip(rows.tolist(), ids.tolist(), strict=True):
            said[row].append(token)
    return said
