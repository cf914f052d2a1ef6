"""The votes of n-grams: naive Bayes by its formula, weights by the optimum of their loss."""

from math import log

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from glassformer.config import ModelSettings
from glassformer.data.batch import Examples
from glassformer.data.ragged import Ragged
from glassformer.ngrams import ALONE, BEGINS, CONTINUES, NgramVotes
from glassformer.train import votes as module
from glassformer.train.votes import fit_votes, kind_of

V = 9
TEXTS = [[4, 5, 4], [4, 6], [7, 5], [7, 8, 7, 8], [4, 8], [7, 6]]
LABELS = [0, 0, 1, 1, 0, 1]


def examples(texts=TEXTS, labels=LABELS, **changes: float) -> Examples:
    sides = Ragged.of(texts), Ragged.of([[label] for label in labels])
    return Examples("classifier", sides, **changes)


def settings(longest: int = 1, classes: int = 2, buckets: int = 500) -> ModelSettings:
    sizes = {"vocab_size": V, "n_classes": classes, "ngrams": longest, "ngram_buckets": buckets}
    return ModelSettings(kind="classifier", **sizes)


def unfitted(s: ModelSettings) -> NgramVotes:
    shape = s.n_classes, s.vocab_size + s.ngram_buckets
    return NgramVotes(s, np.zeros(shape, np.float32), np.zeros(V, np.float32))


def fitted(longest: int = 1, classes: int = 2, **given: object) -> NgramVotes:
    return fit_votes(settings(longest, classes), examples(**given))


def test_evidence_is_the_log_ratio_of_what_was_seen_and_one_more():
    counted = module._counted(unfitted(settings(buckets=1)), examples())
    evidence = module._evidence(*counted, (V + 1, 2))
    in_class = {0: [1] * (V + 1), 1: [1] * (V + 1)}
    for text, label in zip(TEXTS, LABELS, strict=True):
        for token in {*text, 2}:  # the mark of the beginning is read with every text
            in_class[label][token] += 1
    for token in range(V + 1):
        share = [in_class[c][token] / sum(in_class[c]) for c in (0, 1)]
        expected = log(share[0] / share[1])
        assert evidence[token].tolist() == pytest.approx([expected, -expected], abs=1e-5)


@pytest.mark.parametrize("longest", [1, 2])
def test_what_is_fitted_is_where_the_loss_has_its_least(longest, monkeypatch):
    monkeypatch.setattr(module, "ITERATIONS", 500)
    votes = fitted(longest)
    counted = module._counted(votes, examples())
    evidence = module._evidence(*counted, (V + 500, 2))
    safe = torch.where(evidence == 0, 1.0, evidence)
    weights = (torch.from_numpy(votes.weight).T / safe).requires_grad_()
    places, starts, labels = counted
    logits = F.embedding_bag(places, evidence * weights, starts, mode="sum") + log(0.5)
    loss = F.cross_entropy(logits, labels) + module.PENALTY / 2 * weights.square().sum()
    (gradient,) = torch.autograd.grad(loss, weights)
    assert gradient.abs().max() < 1e-4


def test_texts_of_the_training_set_are_told_apart():
    votes = fitted()
    for text, label in zip(TEXTS, LABELS, strict=True):
        assert int(votes(text).argmax()) == label


def test_what_only_a_pair_tells_needs_pairs():
    texts, labels = [[4, 5], [5, 4]] * 10, [0, 1] * 10
    single, pairs = (fitted(n, texts=texts, labels=labels) for n in (1, 2))
    assert single([4, 5]) == pytest.approx([0, 0], abs=1e-4)
    assert int(pairs([4, 5]).argmax()) == 0
    assert int(pairs([5, 4]).argmax()) == 1


def test_how_common_a_class_is_is_not_theirs_to_say():
    """Texts that say nothing of their class: no token may stand in for the share of classes."""
    votes = fitted(texts=[[4]] * 9, labels=[0] * 8 + [1])
    assert np.abs(votes([4])).max() < 1e-2


def test_what_stands_in_one_text_alone_has_no_say():
    votes = fitted(texts=[*TEXTS, [3, 3]], labels=[*LABELS, 1])
    assert (votes.weight[:, 3] == 0).all() and np.abs(votes.weight[:, 4]).min() > 0


def test_nothing_is_hidden_from_them():
    masked = fit_votes(settings(), examples(hidden=0.9))
    assert np.array_equal(fitted().weight, masked.weight)


def test_three_classes_and_one_that_was_never_seen():
    votes = fitted(classes=3)
    assert np.isfinite(votes.weight).all()
    assert int(votes([4, 4]).argmax()) == 0


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        (BEGINS, ["▁film", "▁90", "▁don", "▁été", "▁'"]),
        (CONTINUES, ["ing", "s", "'", "’", "t", "7"]),
        (ALONE, ["▁", ".", "▁(", "...", "▁-", "<s>", "</s>", "<unk>", "<pad>", "<0x0A>", "☃"]),
    ],
)
def test_letters_digits_and_apostrophes_make_words(kind, pieces):
    assert {piece: kind_of(piece) for piece in pieces} == dict.fromkeys(pieces, kind)
