"""What may not be said next. Each rule works in place on the log-probabilities of one step.

Rules forbid; they do not re-normalise. The probability of what is said stays what the model gives
it, so a score can be checked by scoring the text again. The repetition penalty alone changes it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decode.options import SearchOptions

NEVER = -torch.inf
A_FEW = 64  # tokens that are looked at before all


@dataclass
class Constraints:
    """The rules of one batch; `keep` follows the sentences that go on."""

    options: SearchOptions
    eos: int
    unsayable: Tensor  # padding and the mark of the beginning
    prefixes: Int[Tensor, "B P"]  # what must be said first; -1 behind shorter ones

    def apply(self, log_probs: Float[Tensor, "B W V"], said: Int[Tensor, "B W T"]) -> None:
        """Set what may not follow `said` to minus infinity."""
        length = said.size(-1)
        untouched = Forced.of(self.prefixes[:, length : length + 1], log_probs)
        if self.options.repetition_penalty != 1.0:
            penalise_repetition(log_probs, said, self.options.repetition_penalty)
        if self.options.no_repeat_ngram:
            forbid_repeated_ngrams(log_probs, said, self.options.no_repeat_ngram)
        log_probs.index_fill_(-1, self.unsayable, NEVER)
        if length < self.options.min_length:
            forbid_end(log_probs, self.eos)
        if untouched is not None:
            untouched.force(log_probs)

    def keep(self, sentences: Tensor) -> None:
        self.prefixes = self.prefixes[sentences]


def forbid_end(log_probs: Float[Tensor, "B W V"], eos: int) -> None:
    """No end yet, unless the other rules have left nothing else to say."""
    end = log_probs[..., eos].clone()
    log_probs[..., eos] = NEVER
    if (log_probs[..., :A_FEW] > NEVER).any(-1).all():  # most often: then the others need no look
        return
    log_probs[..., eos] = end.masked_fill_(log_probs.amax(-1) > NEVER, NEVER)


def penalise_repetition(log_probs: Tensor, said: Int[Tensor, "B W T"], factor: float) -> None:
    """A token said before counts as less likely (Keskar et al., 2019): its log times `factor`."""
    if said.size(-1):
        log_probs.scatter_(-1, said, log_probs.gather(-1, said) * factor)


def forbid_repeated_ngrams(log_probs: Tensor, said: Int[Tensor, "B W T"], n: int) -> None:
    """No token that would complete a run of n tokens which the hypothesis holds already."""
    if said.size(-1) < n:
        return
    runs = said.unfold(-1, n, 1)  # (B, W, runs, n)
    latest = said[..., None, said.size(-1) - n + 1 :]  # the run to come, but for its end
    repeats = (runs[..., :-1] == latest).all(-1)
    last = runs[..., -1]
    forbidden = log_probs.gather(-1, last).masked_fill(repeats, NEVER)
    log_probs.scatter_reduce_(-1, last, forbidden, "amin")


class Forced(NamedTuple):
    """The tokens of prefixes, with the log-probabilities that they had before any rule."""

    rows: Tensor  # (B, 1, 1): sentences whose prefix goes on
    tokens: Tensor  # (B, W, 1)
    log_probs: Tensor  # (B, W, 1)

    @classmethod
    def of(cls, column: Int[Tensor, "B c"], log_probs: Tensor) -> "Forced | None":
        """`column` holds one token per sentence, or -1; none at all behind the last prefix."""
        if not column.numel() or int(column.max()) < 0:
            return None
        tokens = column.clamp(min=0)[:, None].expand(-1, log_probs.size(1), 1)
        return cls(column[:, None] >= 0, tokens, log_probs.gather(-1, tokens))

    def force(self, log_probs: Float[Tensor, "B W V"]) -> None:
        """Nothing but the prefix may be said, whatever the other rules think of it."""
        log_probs.masked_fill_(self.rows, NEVER)
        allowed = torch.where(self.rows, self.log_probs, log_probs.gather(-1, self.tokens))
        log_probs.scatter_(-1, self.tokens, allowed)
