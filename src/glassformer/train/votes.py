"""N-gram scores: naive Bayes log-ratios weighed by a logistic regression (Wang and Manning, 2012).

The log-ratio of an n-gram and a class is that of its frequency in texts of the class to its
frequency in other texts. A weight for each ratio, with an L2 penalty, is fitted to the labels: a
convex problem, which L-BFGS solves in a minute for 25,000 texts.
"""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import ModelSettings
from glassformer.data.batch import Examples
from glassformer.data.batching import TokenBatches
from glassformer.data.tokenizer import Tokenizer
from glassformer.ngrams import ALONE, BEGINS, CONTINUES, NgramVotes

PENALTY = 2e-4  # L2 penalty on the weights, added to the mean loss of a text
ITERATIONS = 40
READ = 65_536  # tokens per batch
SEEN = 2  # least number of texts of an n-gram: most n-grams occur in one text only
SPACE, APOSTROPHES = "▁", "'’"  # in sentencepiece's spelling of a piece
FINER = 16  # factor on the buckets while counting, which avoids most collisions


def fit_votes(
    settings: ModelSettings, examples: Examples, tokenizer: Tokenizer | None = None
) -> NgramVotes:
    """Return the votes of all n-grams of labelled examples.

    They are of words if it is known how the tokens are written, and of tokens if it is not.
    """
    classes, size = settings.n_classes, settings.vocab_size + settings.ngram_buckets
    kinds = np.zeros(settings.vocab_size, np.float32)
    if tokenizer is not None:
        kinds[:] = list(map(kind_of, tokenizer.pieces(range(len(tokenizer)))))
    votes = NgramVotes(settings, np.zeros((classes, size), np.float32), kinds)
    places, starts, labels = _counted(votes, examples)
    evidence = _evidence(places, starts, labels, (size, classes))
    shares = labels.bincount(minlength=classes) / len(labels)
    prior = shares.clamp(min=1 / len(labels)).log()  # the encoder learns it; the n-grams need not
    weights = torch.zeros_like(evidence, requires_grad=True)
    search = torch.optim.LBFGS(
        [weights], max_iter=ITERATIONS, history_size=8, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        search.zero_grad()
        logits = F.embedding_bag(places, evidence * weights, starts, mode="sum") + prior
        loss = F.cross_entropy(logits, labels) + PENALTY / 2 * weights.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        search.step(closure)
    votes.weight = (evidence * weights).detach().T.contiguous().numpy()
    return votes


def kind_of(piece: str) -> int:
    """Letters, digits and apostrophes make words; a word begins behind a space or anything else."""
    written = piece.removeprefix(SPACE)
    if not written or not all(c.isalnum() or c in APOSTROPHES for c in written):
        return ALONE
    return BEGINS if piece.startswith(SPACE) else CONTINUES


def _counted(
    votes: NgramVotes, examples: Examples
) -> tuple[Int[Tensor, "N"], Int[Tensor, "texts"], Int[Tensor, "texts"]]:
    """The places of all texts one after the other, where each text starts, and its label."""
    shown = replace(examples, hidden=0.0)
    found: list[NDArray[np.int64]] = []
    sizes: list[int] = []
    labels: list[Tensor] = []
    for indices in TokenBatches(shown.lengths, READ).epoch(0, shuffle=False):
        batch = shown.batch(indices)
        (ids,) = batch.inputs
        texts = [votes.places(row[row != votes.settings.pad_id], FINER) for row in ids.numpy()]
        found += texts
        sizes += map(len, texts)
        labels.append(batch.labels)
    places, asked = torch.from_numpy(np.concatenate(found)), torch.cat(labels)
    often = places.bincount()[places] >= SEEN
    text = torch.arange(len(asked)).repeat_interleave(torch.tensor(sizes))
    ends = text[often].bincount(minlength=len(asked)).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    coarse = torch.from_numpy(votes.coarse(places[often].numpy()))
    return coarse.int(), starts.int(), asked


def _evidence(
    places: Int[Tensor, "N"], starts: Int[Tensor, "texts"], labels: Tensor, shape: tuple[int, int]
) -> Float[Tensor, "places C"]:
    """log P(n-gram | class) / P(n-gram | another class), each seen once more than it was."""
    sizes = torch.diff(starts, append=starts.new_tensor([len(places)])).long()
    each = labels.repeat_interleave(sizes)
    seen = torch.ones(shape)
    seen.index_put_((places.long(), each), torch.ones(()), accumulate=True)
    others = seen.sum(1, keepdim=True) - seen
    return (seen / seen.sum(0)).log() - (others / others.sum(0)).log()
