"""Observers of a search: they get every step's scores and candidates, and change nothing."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from glassformer.decode.beam import Candidates
from glassformer.decode.decoder import Ids, Values


@dataclass(frozen=True)
class Step:
    """One step of the R sentences that were live before it.

    C candidates per sentence, best first. Places without a candidate have log-probability -inf.
    """

    sentences: Ids  # (R,) their numbers in the batch
    parents: Ids  # (R, C) the hypothesis that each candidate continues
    tokens: Ids  # (R, C)
    log_probs: NDArray[np.float64]  # (R, C) of the whole hypothesis, the token included
    ended: NDArray[np.bool_]  # (R, C) finished, by the end mark or at the length limit
    survivors: Ids  # (R, W) the candidate that is hypothesis w of the next step; -1: none

    @classmethod
    def of(cls, sentences: Ids, candidates: Candidates) -> "Step":
        """Copy the candidates of these sentences."""
        return cls(
            sentences,
            candidates.parents[sentences],
            candidates.tokens[sentences],
            candidates.log_probs[sentences],
            candidates.ended[sentences],
            candidates.survivors[sentences],
        )


class Observer(Protocol):
    """Callbacks of `search`. Arrays may be overwritten afterwards: copy what must be kept."""

    def on_prefix(self, prefix: Ids, log_probs: Values) -> None:
        """Receive the prefix that all sentences share in length, (B, P), read at once.

        `log_probs`, (B, P, V), are the model's for the token at each position of it.
        """

    def on_scores(self, sentences: Ids, log_probs: Values) -> None:
        """Receive the log-probabilities of the next token, (R, H, V), before any rule applies."""

    def on_step(self, step: Step) -> None:
        """Receive the candidates of the step and what became of them."""
