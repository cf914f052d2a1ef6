"""Greedy decoding: the likeliest token at every step."""

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.decode.session import Session, output_limits
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
    limits = output_limits(source, model.pad_id)
    if max_length is not None:
        limits = limits.clamp(max=max_length)
    session = Session(model, source, int(limits.max()))
    said: list[list[int]] = [[] for _ in source]
    rows = torch.arange(len(source))  # whose turn each row of the session is
    ids = torch.full((len(source),), bos)
    for length in range(int(limits.max())):
        ids = session.step(ids).argmax(-1)
        speaking = ids != eos
        for row, token in zip(rows[speaking].tolist(), ids[speaking].tolist(), strict=True):
            said[row].append(token)
        going = (speaking & (limits[rows] > length + 1)).nonzero().squeeze(1)
        if len(going) < len(rows):
            session.keep(going)
            rows, ids = rows[going], ids[going]
        if not len(rows):
            break
    return said
