"""Embedding: a text in, a vector out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from glassformer.config import RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.pipeline.batches import BATCH_TOKENS, Ids, Texts, encode_sources, in_batches
from glassformer.pipeline.engines import torch_module

if TYPE_CHECKING:
    from glassformer.model.classifier import TransformerEmbedder


class EmbedderModel(Protocol):
    """Model interface that an `Embedder` uses."""

    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vector of each row of ids, (B, D)."""
        ...


class Embedder:
    """An encoder with its tokenizer, which gives one vector for a text."""

    def __init__(
        self,
        runs: EmbedderModel,
        tokenizers: dict[str, Tokenizer],
        settings: RunSettings,
        int8: bool = False,
    ) -> None:
        self.runs, self.settings, self.int8 = runs, settings, int8
        self.tokenizer = next(iter(tokenizers.values()))

    @property
    def model(self) -> "TransformerEmbedder":
        """The torch model; only with `engine="torch"`."""
        model: TransformerEmbedder = torch_module(self.runs)
        return model

    @property
    def max_length(self) -> int:
        """Subwords of the longest text that it reads, without marks."""
        longest = self.settings.data.max_length
        if self.settings.model.positions == "learned":
            longest = min(longest, self.settings.model.max_positions)
        return longest - len(self.tokenizer.source([]))

    def embed(
        self, text: str | Texts, *, batch_tokens: int = BATCH_TOKENS, truncate: bool = False
    ) -> NDArray[np.float32]:
        """Return the vector of a text, (D,), or those of several, (texts, D), in their order.

        The dot product of two vectors is the cosine of their angle where `model.unit_length` is
        set. `truncate` cuts texts that are too long for the model; without it they are refused.
        """
        texts = [text] if isinstance(text, str) else list(text)
        encoded = encode_sources(self.tokenizer, texts, self.max_length, truncate)
        rows = [self.tokenizer.source(ids) for ids in encoded]
        nothing = np.zeros(self.settings.model.d_model, np.float32)

        def answer(indices: Ids) -> list[NDArray[np.float32]]:
            return list(self.runs.embed([rows[i] for i in indices]))

        vectors = in_batches(rows, batch_tokens, answer, nothing)
        return vectors[0] if isinstance(text, str) else np.stack([*vectors, nothing])[:-1]
