"""One batch being decoded: the source read once, then one step at a time over the cache."""

from jaxtyping import Float, Int
from torch import Tensor

from glassformer.model.cache import DecoderCache
from glassformer.model.masks import padding_mask
from glassformer.model.transformer import Transformer


class Session:
    """Row r of every step belongs to row r of the batch, until `keep` lets rows go."""

    def __init__(self, model: Transformer, source: Int[Tensor, "B S"], max_length: int) -> None:
        self.model = model
        self.source_mask = padding_mask(source, model.pad_id)
        memory = model.encoder(source, self.source_mask)
        self.cache: DecoderCache = model.decoder.start_cache(max_length, memory)

    def step(self, ids: Int[Tensor, "B"]) -> Float[Tensor, "B V"]:
        """The logits of what follows `ids`, the latest token of each row."""
        features = self.model.decode(ids[:, None], None, self.source_mask, cache=self.cache)
        return self.model.output(features[:, -1])

    def keep(self, rows: Int[Tensor, "R"]) -> None:
        """Go on with these rows only, in this order."""
        self.cache.reorder(rows)
        self.source_mask = self.source_mask[rows]


def output_limits(source: Int[Tensor, "B S"], pad_id: int) -> Int[Tensor, "B"]:
    """As many tokens as no sane translation reaches: the paper's input length + 50 (§6.1).

    By each sentence's own length, so that an answer does not depend on its neighbours.
    """
    return (source != pad_id).sum(1) + 50
