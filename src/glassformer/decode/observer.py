"""Somebody who watches a search: told of every step as it is made, deciding nothing."""

from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Step:
    """One step of the sentences that were not done before it, R of them.

    Candidates are continuations, C of each sentence, the best first. Those with a log-probability
    of minus infinity are none: there was nothing to say, or the hypothesis had ended before.
    """

    sentences: Int[Tensor, "R"]  # which of the batch they are
    parents: Int[Tensor, "R C"]  # the hypothesis that each continues
    tokens: Int[Tensor, "R C"]
    log_probs: Float[Tensor, "R C"]  # of all that was said, the token too
    ended: Bool[Tensor, "R C"]  # by the end mark, or by the limit of length
    lives: Int[Tensor, "R W"]  # the candidate that is hypothesis w of the next step; -1: none

    def of(self, rows: Bool[Tensor, "R"]) -> "Step":
        return Step(
            self.sentences[rows],
            self.parents[rows],
            self.tokens[rows],
            self.log_probs[rows],
            self.ended[rows],
            self.lives[rows],
        )


class Observer(Protocol):
    """What `search` tells if it is given one. Tensors are the search's own: read, do not keep."""

    def began(self, said: Int[Tensor, "B P"], log_probs: Float[Tensor, "B P V"]) -> None:
        """What every sentence was made to begin with, and what was likely in its place."""

    def heard(self, sentences: Int[Tensor, "R"], log_probs: Float[Tensor, "R W V"]) -> None:
        """What the model says may follow each hypothesis, before any rule forbids some of it."""

    def chose(self, step: Step) -> None:
        """What the search made of that."""
