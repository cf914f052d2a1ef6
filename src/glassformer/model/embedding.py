"""Token ids to vectors (§3.4)."""

from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.masks import check_id_shape


class TokenEmbedding(nn.Module):
    """A row of the table per id, times √d_model or another `scale`.

    A table that is tied to the output projection (§3.4) has small values; the factor scales them to
    the size of the positions that are added.
    """

    def __init__(self, vocab_size: int, d_model: int, scale: float | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.scale = sqrt(d_model) if scale is None else scale

    @property
    def vocab_size(self) -> int:
        return self.weight.size(0)

    def forward(self, ids: Tensor) -> Float[Tensor, "B T D"]:
        check_ids(ids, self.vocab_size)
        return F.embedding(ids, self.weight) * self.scale


def check_ids(ids: Tensor, vocab_size: int) -> None:
    check_id_shape(ids)
    if ids.size(1) == 0:
        raise InputError(
            f"The token ids have shape {tuple(ids.shape)}: the sequence is empty.",
            "Attention needs at least one token to attend to.",
            "Give an empty sentence its end-of-sentence token, or leave it out of the batch.",
        )
    if ids.numel() == 0 or not checks_indices(ids.device):
        return
    low, high = ids.aminmax()
    if low < 0 or high >= vocab_size:
        raise InputError(
            f"Token id {int(low if low < 0 else high)} is outside the vocabulary.",
            f"The model has {vocab_size} entries: ids run from 0 to {vocab_size - 1}.",
            "Use the tokenizer that was trained with this model, or build it with a larger "
            "vocab_size.",
        )


def checks_indices(device: torch.device) -> bool:
    """Return whether indices are compared with the size of a table before they are looked up.

    A compiler has no values, nor has the device `meta`. On CUDA the lookup itself fails, and the
    comparison would wait for the GPU in each batch.
    """
    return not torch.compiler.is_compiling() and device.type not in ("cuda", "meta")
