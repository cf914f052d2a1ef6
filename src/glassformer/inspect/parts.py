"""The encoder's part of a label's score, that of the n-grams, and that of each n-gram.

A label's score is its logit minus the mean logit of the other labels; with two labels these are the
log-odds. It is a sum, so its parts add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.inspect.words import SPACE
from glassformer.ngrams import NgramVotes
from glassformer.pipeline import Classifier


@dataclass(frozen=True)
class LabelParts:
    """Parts of the scores of all labels, in the order of the model's labels."""

    encoder: list[float]
    ngrams: list[float]  # all of them
    each: list[tuple[str, list[float]]]  # distinct n-grams, the one with the largest part first


@torch.no_grad()
def label_parts(model: Classifier, ids: Sequence[int]) -> LabelParts | None:
    """Return the parts of the scores of a text; None where the encoder answers alone."""
    if model.votes is None:
        return None
    share = model.settings.model.ngram_share
    module = model.model
    logits = module(torch.tensor([list(ids)], device=module.output.weight.device))[0]
    encoder = _scores((1 - share) * logits.double().cpu().numpy())
    votes = model.votes
    each = [
        (
            _text(model.tokenizer.pieces(ids[start:end])),
            _scores(share * votes.weight[:, place].astype(np.float64) * votes.scale).tolist(),
        )
        for place, (start, end) in ngram_spans(votes, ids).items()
    ]
    total = np.sum([part for _, part in each], axis=0) if each else np.zeros(len(encoder))
    each.sort(key=lambda one: -max(map(abs, one[1])))
    return LabelParts(encoder.tolist(), total.tolist(), each)


def _text(pieces: Sequence[str]) -> str:
    """Return the words of pieces; decoding would drop the begin mark."""
    return "".join(pieces).replace(SPACE, " ").strip() or SPACE


def _scores(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each label's logit minus the mean of the others'."""
    others = (logits.sum() - logits) / max(1, len(logits) - 1)
    return logits - others


def ngram_spans(votes: NgramVotes, ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the tokens of the first occurrence of each distinct n-gram, by its column.

    Different n-grams may share a column of the hashed table; the first of them stands for it.
    """
    row = np.asarray(ids, np.int64)
    starts = np.flatnonzero(~votes.continues(row)).tolist()
    ends = [*starts[1:], len(row)]
    longest = min(votes.settings.ngrams, len(starts))
    spans = [
        (starts[first], ends[first + n - 1])
        for n in range(1, longest + 1)
        for first in range(len(starts) - n + 1)
    ]
    found: dict[int, tuple[int, int]] = {}
    for place, span in zip(votes.all_places(row).tolist(), spans, strict=True):
        if place != votes.settings.pad_id:
            found.setdefault(place, span)
    return found
