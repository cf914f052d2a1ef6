"""Parts of a label's score: they add up to it, and each n-gram has the text of its tokens."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.inspect.parts import label_parts, ngram_spans
from glassformer.ngrams import ALONE, BEGINS, CONTINUES, KINDS, NgramVotes, ngram_shapes

TEXT = "the old cat sees a dog and the old dog"


def with_votes(untrained: Any, **changes: Any) -> Any:
    """Return a classifier with random votes; ▁ begins a word."""
    model = untrained("classifier", ngrams=2, ngram_buckets=5_000, ngram_share=0.4, **changes)
    settings = model.settings.model
    random = np.random.default_rng(0)
    weights = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in ngram_shapes(settings).items()
    }
    pieces = model.tokenizer.pieces(range(settings.vocab_size))
    kinds = [BEGINS if piece.startswith("▁") else CONTINUES for piece in pieces]
    weights[KINDS] = np.array([ALONE, ALONE, ALONE, ALONE, *kinds[4:]])
    model.votes = NgramVotes.of(settings, weights)
    return model


def test_the_parts_add_up_to_the_scores_of_the_labels(untrained: Any) -> None:
    model = with_votes(untrained)
    ids = [model.tokenizer.bos_id, *model.tokenizer.encode([TEXT])[0]]
    parts = label_parts(model, ids)
    assert parts is not None
    logits = model.logits([ids])[0].astype(np.float64)
    expected = [logit - np.delete(logits, i).mean() for i, logit in enumerate(logits)]
    assert np.add(parts.encoder, parts.ngrams) == pytest.approx(expected, abs=1e-4)
    each = np.sum([values for _, values in parts.each], axis=0)
    assert each == pytest.approx(parts.ngrams, abs=1e-9)
    largest = [max(map(abs, values)) for _, values in parts.each]
    assert largest == sorted(largest, reverse=True)


def test_an_ngram_has_the_words_of_its_tokens_and_counts_once(untrained: Any) -> None:
    model = with_votes(untrained)
    (ids,) = model.tokenizer.encode([TEXT])
    texts = [model.tokenizer.decode(ids[a:b]) for a, b in ngram_spans(model.votes, ids).values()]
    shown = [text for text, _ in label_parts(model, [model.tokenizer.bos_id, *ids]).each]
    assert {"the", "old dog", "<s>"} <= {*shown}
    words = TEXT.split()
    pairs = [" ".join(pair) for pair in pairwise(words)]
    assert sorted(texts) == sorted({*words, *pairs})


def test_a_classifier_without_ngrams_has_no_parts(untrained: Any) -> None:
    model = untrained("classifier")
    assert label_parts(model, [2, 5]) is None
    assert torch.is_grad_enabled()
