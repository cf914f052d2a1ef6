"""The votes of n-grams: naive Bayes by its formula, weights by the optimum of their loss."""

from math import log

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from glassformer.data.batch import Examples
from glassformer.data.ragged import Ragged
from glassformer.model.ngrams import ALONE, BEGINS, CONTINUES, NgramVotes
from glassformer.train import votes as module
from glassformer.train.votes import fit_votes, kind_of

V = 9
TEXTS = [[4, 5, 4], [4, 6], [7, 5], [7, 8, 7, 8], [4, 8], [7, 6]]
LABELS = [0, 0, 1, 1, 0, 1]


def examples(texts=TEXTS, labels=LABELS, **changes: float) -> Examples:
    sides = Ragged.of(texts), Ragged.of([[label] for label in labels])
    return Examples("classifier", sides, **changes)


def fitted(longest: int = 1, classes: int = 2, **given: object) -> NgramVotes:
    votes = NgramVotes(V, classes, longest, 500)
    with torch.no_grad():
        votes.weight.zero_()
        fit_votes(votes, examples(**given))
    return votes


def test_evidence_is_the_log_ratio_of_what_was_seen_and_one_more():
    votes = NgramVotes(V, 2, 1, 1)
    counted = module._counted(votes, examples())
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
    votes = NgramVotes(V, 2, longest, 500)
    counted = module._counted(votes, examples())
    evidence = module._evidence(*counted, (V + 500, 2))
    with torch.no_grad():
        fit_votes(votes, examples())
    safe = torch.where(evidence == 0, 1.0, evidence)
    weights = (votes.weight.T / safe).requires_grad_()
    places, starts, labels = counted
    logits = F.embedding_bag(places, evidence * weights, starts, mode="sum") + log(0.5)
    loss = F.cross_entropy(logits, labels) + module.PENALTY / 2 * weights.square().sum()
    (gradient,) = torch.autograd.grad(loss, weights)
    assert gradient.abs().max() < 1e-4


def test_texts_of_the_training_set_are_told_apart():
    votes = fitted()
    for text, label in zip(TEXTS, LABELS, strict=True):
        assert int(votes(torch.tensor([text])).argmax()) == label


def test_what_only_a_pair_tells_needs_pairs():
    texts, labels = [[4, 5], [5, 4]] * 10, [0, 1] * 10
    single, pairs = (fitted(n, texts=texts, labels=labels) for n in (1, 2))
    assert torch.allclose(single(torch.tensor([[4, 5]])), torch.zeros(1, 2), atol=1e-4)
    assert int(pairs(torch.tensor([[4, 5]])).argmax()) == 0
    assert int(pairs(torch.tensor([[5, 4]])).argmax()) == 1


def test_how_common_a_class_is_is_not_theirs_to_say():
    """Texts that say nothing of their class: no token may stand in for the share of classes."""
    votes = fitted(texts=[[4]] * 9, labels=[0] * 8 + [1])
    assert votes(torch.tensor([[4]])).abs().max() < 1e-2


def test_what_stands_in_one_text_alone_has_no_say():
    votes = fitted(texts=[*TEXTS, [3, 3]], labels=[*LABELS, 1])
    assert (votes.weight[:, 3] == 0).all() and votes.weight[:, 4].abs().min() > 0


def test_nothing_is_hidden_from_them():
    open_, hidden = fitted(), NgramVotes(V, 2, 1, 500)
    with torch.no_grad():
        hidden.weight.zero_()
        fit_votes(hidden, examples(hidden=0.9))
    assert torch.equal(open_.weight[:, :V], hidden.weight[:, :V])


def test_three_classes_and_one_that_was_never_seen():
    votes = fitted(classes=3)
    assert votes.weight.isfinite().all()
    assert np.argmax(votes(torch.tensor([[4, 4]])).tolist()) == 0


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
