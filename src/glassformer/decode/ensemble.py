"""Several decoders as one: the mean of their probabilities."""

from collections.abc import Sequence
from math import log

import numpy as np

from glassformer.decode.decoder import Decoder, Decoding, Ids, Scores
from glassformer.decode.rows import Rows
from glassformer.errors import InputError


def as_one(decoders: Decoder | Sequence[Decoder]) -> Decoder:
    """Return the decoder, or the ensemble of several."""
    if not isinstance(decoders, Sequence):
        return decoders
    return decoders[0] if len(decoders) == 1 else Ensemble(decoders)


class Ensemble:
    """A Decoder whose log-probabilities are the log of the members' mean probability."""

    def __init__(self, members: Sequence[Decoder]) -> None:
        if not members:
            raise InputError(
                "An ensemble was given no models.",
                "There is nothing to decode with.",
                "Pass at least one decoder.",
            )
        self.members = list(members)
        self.pad_id = members[0].pad_id
        self.vocab_size = members[0].vocab_size
        self.reads_source = members[0].reads_source
        longest = [m.max_target for m in members if m.max_target is not None]
        self.max_target = min(longest, default=None)
        for other in members[1:]:
            self._check(other)

    def _check(self, other: Decoder) -> None:
        ours = self.vocab_size, self.pad_id, self.reads_source
        theirs = other.vocab_size, other.pad_id, other.reads_source
        if ours != theirs:
            raise InputError(
                f"Models of (vocab_size, pad_id, reads_source) = {ours} and {theirs} are no "
                "ensemble.",
                "The mean of their probabilities is taken token by token.",
                "Use models of one kind that were trained with one vocabulary.",
            )

    def parts(self, batch: int, width: int) -> int:
        """Return the least number of parts that a member asks for."""
        return min(parts(member, batch, width) for member in self.members)

    def alone(self) -> "Ensemble":
        """Return the ensemble on one thread."""
        return Ensemble([alone(member) for member in self.members])

    def start(
        self, sources: Sequence[Sequence[int]] | None, batch: int, width: int, max_length: int
    ) -> Decoding:
        return _Decoding([m.start(sources, batch, width, max_length) for m in self.members])


class _Decoding:
    def __init__(self, members: list[Decoding]) -> None:
        self.members = members

    def prefill(self, ids: Ids) -> Scores:
        return _mean([member.prefill(ids) for member in self.members])

    def step(self, tokens: Ids, parents: Ids | None = None) -> Scores:
        return _mean([member.step(tokens, parents) for member in self.members])

    def keep(self, sentences: Ids) -> None:
        for member in self.members:
            member.keep(sentences)


def _mean(scores: list[Scores]) -> Rows:
    """Return log((p_1 + … + p_n) / n)."""
    rows = [one.rows().astype(np.float64) for one in scores]
    return Rows(np.logaddexp.reduce(rows) - log(len(rows)))


def parts(decoder: Decoder, batch: int, width: int) -> int:
    """Return into how many parts the decoder wants a batch split."""
    asked = getattr(decoder, "parts", None)
    return 1 if asked is None else int(asked(batch, width))


def alone(decoder: Decoder) -> Decoder:
    """Return the decoder on one thread, for one of several parts of a batch."""
    return decoder.alone() if hasattr(decoder, "alone") else decoder
