"""Whole models with an output over the vocabulary: the Transformer, and a decoder on its own.

Every model is `output(features(...))`: the vectors of the last layer, and one linear layer that
maps them to logits. The softmax is part of the loss or the search.
"""

from jaxtyping import Float
from torch import Tensor, nn

from glassformer.model.cache import DecoderCache
from glassformer.model.decoder import TransformerDecoder
from glassformer.model.encoder import TransformerEncoder
from glassformer.model.masks import padding_mask, target_mask


class Transformer(nn.Module):
    """Figure 1. Masks are made from `pad_id` unless they are given."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        decoder: TransformerDecoder,
        output: nn.Linear,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.output, self.pad_id = encoder, decoder, output, pad_id

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Float[Tensor, "B T V"]:
        return self.output(self.features(source, target, source_mask, target_mask))

    def features(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Float[Tensor, "B T D"]:
        if source_mask is None:
            source_mask = padding_mask(source, self.pad_id)
        memory = self.encoder(source, source_mask)
        return self.decode(target, memory, source_mask, target_mask)

    def decode(
        self,
        target: Tensor,
        memory: Float[Tensor, "B S D"] | None,
        memory_mask: Tensor | None,
        mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the features of `target`; with a `cache`, `target` follows the cached ids."""
        if mask is None and cache is None:
            mask = target_mask(target, self.pad_id, begin_mark=True)
        return self.decoder(target, memory, mask, memory_mask, cache)


class LanguageModel(nn.Module):
    """A decoder without an encoder: each token is predicted from those before it."""

    def __init__(self, decoder: TransformerDecoder, output: nn.Linear, pad_id: int = 0) -> None:
        super().__init__()
        self.decoder, self.output, self.pad_id = decoder, output, pad_id

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, cache: DecoderCache | None = None
    ) -> Float[Tensor, "B T V"]:
        return self.output(self.features(ids, mask, cache))

    def features(
        self, ids: Tensor, mask: Tensor | None = None, cache: DecoderCache | None = None
    ) -> Float[Tensor, "B T D"]:
        if mask is None and cache is None:
            mask = target_mask(ids, self.pad_id)
        return self.decoder(ids, mask=mask, cache=cache)
