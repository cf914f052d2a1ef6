"""Rules on the next token. Each changes the log-probabilities of one step in place.

Rules forbid tokens, by minus infinity; they do not renormalise. The log-probability of an answer
stays the model's own, so that scoring the text again gives the same number. Only the repetition
penalty changes it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from glassformer.decode.decoder import Ids, Values
from glassformer.decode.options import SearchOptions


class Constraints:
    """The rules of one batch: banned ids, prefixes, least length, n-grams, repetition."""

    def __init__(
        self,
        options: SearchOptions,
        eos: int,
        banned: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        vocab_size: int,
    ) -> None:
        self.options, self.banned, self.vocab_size = options, tuple(banned), vocab_size
        self.end = [eos] if eos < vocab_size else []  # a search may have no end mark
        longest = max(map(len, prefixes))
        rows = [[*prefix, *[-1] * (longest - len(prefix))] for prefix in prefixes]
        self.prefixes = np.array(rows, np.int64).reshape(len(rows), longest)

    @property
    def need_history(self) -> bool:
        return self.options.no_repeat_ngram > 0 or self.options.repetition_penalty != 1.0

    def is_plain(self, position: int) -> bool:
        """Return whether only the banned ids are forbidden, here and at all later positions."""
        forced = position < self.prefixes.shape[1]
        return not (forced or self.need_history or position < self.options.min_length)

    def bans(self, position: int) -> tuple[int, ...] | None:
        """Return the ids forbidden at this position, or None if they differ between hypotheses."""
        if self.is_plain(position):
            return self.banned
        ids = (*self.banned, *self.end)  # before the least length
        same = position >= self.prefixes.shape[1] and not self.need_history
        return ids if same and len(ids) < self.vocab_size else None

    def forced(self, sentences: Ids, position: int) -> Ids:
        """Return the prefix token of each sentence at this position; -1 behind its prefix."""
        if position < self.prefixes.shape[1]:
            return self.prefixes[sentences, position]
        return np.full(len(sentences), -1)

    def apply(self, rows: Values, sentences: Ids, position: int, history: Ids | None) -> None:
        """Apply all rules to the log-probabilities (R, W, V) of these sentences.

        `history`, (R, W, position), holds the tokens of each hypothesis, if a rule needs them.
        """
        prefix = self.forced(sentences, position)
        (forced,) = np.nonzero(prefix >= 0)
        tokens = prefix[forced]
        own = rows[forced, :, tokens]  # (F, W) the model's log-probabilities, before any rule
        if history is not None and self.options.repetition_penalty != 1.0:
            penalise_repetition(rows, history, self.options.repetition_penalty)
        if history is not None and self.options.no_repeat_ngram:
            forbid_repeated_ngrams(rows, history, self.options.no_repeat_ngram)
        rows[..., list(self.banned)] = -np.inf
        if position < self.options.min_length:
            forbid_end(rows, self.end)
        rows[forced] = -np.inf
        rows[forced, :, tokens] = own


def forbid_end(rows: Values, end: list[int]) -> None:
    """Forbid the end mark, except where the other rules have left no other token."""
    own = rows[..., end]
    rows[..., end] = -np.inf
    stuck = rows.max(-1) == -np.inf
    rows[..., end] = np.where(stuck[..., None], own, -np.inf)


def penalise_repetition(rows: Values, history: Ids, factor: float) -> None:
    """Multiply the log-probability of tokens in the history by `factor` (Keskar et al., 2019)."""
    penalised = np.take_along_axis(rows, history, -1) * np.float32(factor)
    np.put_along_axis(rows, history, penalised, -1)


def forbid_repeated_ngrams(rows: Values, history: Ids, n: int) -> None:
    """Forbid tokens that would complete an n-gram which the hypothesis has already."""
    length = history.shape[-1]
    if length < n:
        return
    ngrams = sliding_window_view(history, n, axis=-1)  # (R, W, length - n + 1, n)
    latest = history[..., None, length - n + 1 :]  # the n-gram to come, without its last token
    row, w, i = np.nonzero((ngrams[..., :-1] == latest).all(-1))
    rows[row, w, ngrams[row, w, i, -1]] = -np.inf
