"""Heads on the encoder: one label or one vector for the text, or one label for each token."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.dropout import Dropout
from glassformer.model.encoder import TransformerEncoder
from glassformer.model.masks import padding_mask

Pooling = Callable[[Tensor, Tensor], Tensor]


def _real_tokens(mask: Tensor) -> Bool[Tensor, "b S 1"]:
    if mask.dim() != 4 or mask.size(2) != 1:
        raise InputError(
            f"The mask of a text to pool has shape {tuple(mask.shape)}.",
            "Pooling needs to know which tokens are real: (batch, 1, 1, length).",
            "Pass padding_mask(ids).",
        )
    return mask[:, 0, 0, :, None]


def mean_pool(x: Float[Tensor, "B S D"], real: Tensor) -> Float[Tensor, "B D"]:
    """Take the mean over all tokens but padding; zeros if there are none."""
    weights = _real_tokens(real).to(x.dtype)
    return (x * weights).sum(1) / weights.sum(1).clamp(min=1)


def first_pool(x: Float[Tensor, "B S D"], real: Tensor) -> Float[Tensor, "B D"]:
    """Take the vector of the first token, which training makes a summary."""
    return x[:, 0]


def max_pool(x: Float[Tensor, "B S D"], real: Tensor) -> Float[Tensor, "B D"]:
    """Take the maximum of each feature over all tokens but padding; zeros if there are none."""
    real = _real_tokens(real)
    largest = x.masked_fill(~real, torch.finfo(x.dtype).min).amax(1)
    return largest.masked_fill(~real.any(1), 0.0)


class TransformerClassifier(nn.Module):
    """Encoder, pooling, dropout, one linear layer: logits over the classes."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        output: nn.Linear,
        pool: Pooling = mean_pool,
        dropout: float = 0.0,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.output, self.pool, self.pad_id = encoder, output, pool, pad_id
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Float[Tensor, "B C"]:
        return self.output(self.features(ids, mask))

    def features(self, ids: Tensor, mask: Tensor | None = None) -> Float[Tensor, "B D"]:
        mask = padding_mask(ids, self.pad_id) if mask is None else mask
        return self.dropout(self.pool(self.encoder(ids, mask), mask))


class TransformerEmbedder(nn.Module):
    """Encoder and pooling: one vector for the text, with `unit_length` divided by its length."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        pool: Pooling = mean_pool,
        pad_id: int = 0,
        unit_length: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.pool, self.pad_id = encoder, pool, pad_id
        self.unit_length = unit_length

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Float[Tensor, "B D"]:
        mask = padding_mask(ids, self.pad_id) if mask is None else mask
        vectors = self.pool(self.encoder(ids, mask), mask)
        return F.normalize(vectors, dim=-1) if self.unit_length else vectors


class TransformerTagger(nn.Module):
    """Encoder, dropout, one linear layer at every position: logits for each token."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        output: nn.Linear,
        dropout: float = 0.0,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.output, self.pad_id = encoder, output, pad_id
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Float[Tensor, "B S C"]:
        return self.output(self.features(ids, mask))

    def features(self, ids: Tensor, mask: Tensor | None = None) -> Float[Tensor, "B S D"]:
        mask = padding_mask(ids, self.pad_id) if mask is None else mask
        return self.dropout(self.encoder(ids, mask))
