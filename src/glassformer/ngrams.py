"""A bag-of-n-grams classifier, the ensemble member beside the encoder of a text classifier.

Each n-gram of words has a vote for each class, wherever it occurs. The votes are fitted before
training (`train/votes.py`), stored with the weights of the encoder, and mixed with its logits.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config import ModelSettings
from glassformer.quantize import SCALE

MIX = np.int64(0x2545F4914F6CDD1D)  # an odd number whose products spread over all 64 bits
ALONE, BEGINS, CONTINUES = range(3)  # how a token is part of a word
PREFIX = "votes."  # of the names under which a checkpoint holds the votes
WEIGHT, KINDS = f"{PREFIX}weight", f"{PREFIX}kinds"

Ids = Sequence[int] | NDArray[np.integer[Any]]
Logits = NDArray[np.float32]


def ngram_shapes(s: ModelSettings) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors of the votes; none if the settings have no n-grams."""
    if not s.ngrams:
        return {}
    return {WEIGHT: (s.n_classes, s.vocab_size + s.ngram_buckets), KINDS: (s.vocab_size,)}


def without_votes(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights of a checkpoint but for the votes."""
    return {name: weights[name] for name in weights if not name.startswith(PREFIX)}


class NgramVotes:
    """Sum the votes of a text's distinct n-grams of up to `settings.ngrams` words.

    A word is a token and the tokens that continue it, which `kinds` marks. A word of one token has
    its own column of `weight`; all other n-grams share `ngram_buckets` columns by a hash.
    """

    def __init__(
        self,
        settings: ModelSettings,
        weight: NDArray[Any],
        kinds: NDArray[Any],
        scale: NDArray[Any] | None = None,
    ) -> None:
        self.settings, self.weight, self.kinds = settings, weight, kinds
        self.scale = np.ones(settings.n_classes, np.float32) if scale is None else scale

    @classmethod
    def of(cls, settings: ModelSettings, weights: Mapping[str, Any]) -> "NgramVotes":
        """Return the votes among the weights of a checkpoint, in fp32 or in eight bits."""
        scale = np.array(weights[WEIGHT + SCALE]) if WEIGHT + SCALE in weights else None
        return cls(settings, np.array(weights[WEIGHT]), np.array(weights[KINDS]), scale)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the votes as a checkpoint in fp32 holds them."""
        return {WEIGHT: self.weight * self.scale[:, None], KINDS: self.kinds}

    def __call__(self, ids: Ids) -> Logits:
        """Return the logits of one text, (C,)."""
        votes = self.weight[:, self.places(ids)]
        logits: Logits = votes.astype(np.float32).sum(1) * self.scale
        return logits

    def of_rows(self, rows: Iterable[Ids]) -> Logits:
        """Return the logits of texts, (B, C)."""
        return np.stack([self(row) for row in rows])

    def mixed(self, logits: Logits, rows: Iterable[Ids]) -> Logits:
        """Return (1 - share) · the encoder's logits + share · those of the n-grams, (B, C)."""
        share = np.float32(self.settings.ngram_share)
        mixed: Logits = logits + share * (self.of_rows(rows) - logits)
        return mixed

    def places(self, ids: Ids, finer: int = 1) -> NDArray[np.int64]:
        """Return the columns of the distinct n-grams of a text, sorted.

        They are columns of a table with `finer` times as many buckets; `coarse` maps them to this.
        """
        places = np.unique(self.all_places(np.asarray(ids, np.int64), finer))
        return places[places != self.settings.pad_id]

    def all_places(self, ids: NDArray[np.int64], finer: int = 1) -> NDArray[np.int64]:
        """Return the column of every n-gram, words first, then pairs."""
        s = self.settings
        with np.errstate(over="ignore"):
            words = self.words(ids)
            code = words
            own = (code >= 0) & (code < s.vocab_size)
            found = [np.where(own, code, self._hashed(code, finer))]
            for n in range(2, min(s.ngrams, len(words)) + 1):
                code = code[:-1] * MIX + n + words[n - 1 :]
                found.append(self._hashed(code, finer))
        return np.concatenate(found)

    def words(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a number for each word: a token's own id, or Σ idₚ · MIXᵖ of several."""
        goes_on = self.continues(ids)
        place = np.arange(len(ids))
        within = place - np.maximum.accumulate(np.where(goes_on, 0, place))
        powers = np.ones(len(ids), np.int64)
        powers[1:] = np.full(len(ids) - 1, MIX).cumprod()
        word = (~goes_on).cumsum() - 1
        numbers = np.zeros(int(word[-1]) + 1, np.int64)
        np.add.at(numbers, word, ids * powers[within])
        return numbers

    def continues(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each token continues the word of the token before it."""
        kinds = self.kinds[ids]
        found = np.zeros(len(ids), bool)
        found[1:] = (kinds[1:] == CONTINUES) & (kinds[:-1] != ALONE)
        return found

    def coarse(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns of this table for those of a finer one."""
        s = self.settings
        hashed = s.vocab_size + (places - s.vocab_size) % s.ngram_buckets
        return np.where(places < s.vocab_size, places, hashed)

    def _hashed(self, code: NDArray[np.int64], finer: int) -> NDArray[np.int64]:
        s = self.settings
        return s.vocab_size + (code * MIX >> np.int64(24)) % (s.ngram_buckets * finer)
