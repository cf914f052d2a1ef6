"""Classification: a text in, a label and probabilities out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from glassformer.config import RunSettings
from glassformer.data.tokenizer import BOS, Tokenizer
from glassformer.ngrams import NgramVotes
from glassformer.pipeline.batches import (
    BATCH_TOKENS,
    Ids,
    Texts,
    check_list,
    fit_sources,
    in_batches,
    max_source,
)
from glassformer.pipeline.engines import torch_module

if TYPE_CHECKING:
    from glassformer.model.classifier import TransformerClassifier


class ClassifierModel(Protocol):
    """Model interface that a `Classifier` uses."""

    def classify(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the logits of each row of ids, (B, C)."""
        ...


@dataclass(frozen=True)
class Classification:
    """The most likely label of a text, and the probabilities of all labels."""

    label: str
    probability: float
    probabilities: dict[str, float]
    cut: int = field(default=0, compare=False)  # subwords at the end that were not read


class Classifier:
    """A classifier with its tokenizer and labels.

    Where the training text has codes for labels, `labels` are the words for them. `spellings` maps
    codes and words to labels, so that examples may have either. `votes` is an ensemble member that
    scores n-grams; None: the encoder alone.
    """

    def __init__(
        self,
        runs: ClassifierModel,
        tokenizers: dict[str, Tokenizer],
        settings: RunSettings,
        int8: bool = False,
        votes: NgramVotes | None = None,
    ) -> None:
        self.runs, self.settings, self.int8, self.votes = runs, settings, int8, votes
        self.tokenizer = next(iter(tokenizers.values()))
        classes = range(settings.model.n_classes)
        codes = settings.data.labels or tuple(str(c) for c in classes)
        words = _words(settings.data.name)
        self.labels = tuple(words.get(code, code) for code in codes)
        self.spellings = dict(zip((*self.labels, *codes), self.labels * 2, strict=True))

    @property
    def model(self) -> "TransformerClassifier":
        """The torch model; only with `engine="torch"`."""
        model: TransformerClassifier = torch_module(self.runs)
        return model

    @property
    def max_length(self) -> int:
        """Subwords of the longest text that it was trained on."""
        return max_source(self.settings)

    @overload
    def classify(
        self, text: str, *, batch_tokens: int = BATCH_TOKENS, truncate: bool = True
    ) -> Classification: ...
    @overload
    def classify(
        self, text: Texts, *, batch_tokens: int = BATCH_TOKENS, truncate: bool = True
    ) -> list[Classification]: ...
    def classify(
        self, text: str | Texts, *, batch_tokens: int = BATCH_TOKENS, truncate: bool = True
    ) -> Classification | list[Classification]:
        """Classify one text or many; return the answers in the order of the texts.

        Texts that are longer than the model was trained on are cut, as they were in training, and
        `cut` of their answers counts the subwords left out. With truncate=False they are refused.
        """
        texts = [text] if isinstance(text, str) else list(text)
        check_list(texts)
        whole = self.tokenizer.encode(texts)
        encoded = fit_sources(whole, texts, self.max_length, truncate)
        cut = [len(ids) - len(kept) for ids, kept in zip(whole, encoded, strict=True)]
        rows = [[BOS, *ids] for ids in encoded]

        def answer(indices: Ids) -> list[Classification]:
            logits = self.logits([rows[i] for i in indices])
            return [
                replace(self._classification(row), cut=cut[i])
                for row, i in zip(logits, indices, strict=True)
            ]

        never = Classification("", 0.0, {})  # every row holds BOS, so none is empty
        answers = in_batches(rows, batch_tokens, answer, never)
        return answers[0] if isinstance(text, str) else answers

    def logits(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the logits of rows of ids, (B, C): the encoder's, mixed with the n-grams'."""
        encoder = self.runs.classify(rows)
        return encoder if self.votes is None else self.votes.mixed(encoder, rows)

    def _classification(self, logits: NDArray[Any]) -> Classification:
        """Softmax in float64, row by row: a row's bits do not depend on the batch."""
        powers = np.exp(logits.astype(np.float64) - logits.max())
        by_label = dict(zip(self.labels, (powers / powers.sum()).tolist(), strict=True))
        label = max(by_label, key=by_label.__getitem__)
        return Classification(label, by_label[label], by_label)


def _words(name: str) -> dict[str, str]:
    """Return the words for the labels of a named set, if its labels are codes."""
    from glassformer.data import datasets  # it imports HTTP and TLS, which a translator never needs

    return (datasets.manifest(name).labels or {}) if name in datasets.names() else {}
