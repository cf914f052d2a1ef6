"""The votes of a classifier's n-grams, in numpy: see model/ngrams.py for what they are."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.config import ModelSettings
from glassformer.engine.layout import Tensors, checked
from glassformer.quantize import SCALE

MIX = np.int64(0x2545F4914F6CDD1D)  # an odd number whose products spread over all 64 bits
ALONE, CONTINUES = 0, 2  # what a token is to words


class NgramVotes:
    """For each class the sum of the votes of a text's different n-grams."""

    def __init__(self, settings: ModelSettings, weights: Tensors) -> None:
        s = self.settings = settings
        name, shape = "votes.weight", (s.n_classes, s.vocab_size + s.ngram_buckets)
        if weights[name].dtype == np.int8:
            self.weight = np.array(checked(weights, name, shape, np.int8))
            self.scale = np.array(checked(weights, name + SCALE, (s.n_classes,)))
        else:
            self.weight = np.array(checked(weights, name, shape))
            self.scale = np.ones(s.n_classes, np.float32)
        self.kinds = np.array(checked(weights, "votes.kinds", (s.vocab_size,)))

    def __call__(self, ids: Sequence[int]) -> NDArray[np.float32]:
        places = np.unique(self._places(np.asarray(ids, np.int64)))
        votes = self.weight[:, places[places != self.settings.pad_id]]
        return votes.astype(np.float32).sum(1) * self.scale

    def _places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place in the table of every n-gram of a text."""
        s = self.settings
        with np.errstate(over="ignore"):
            words = self._words(ids)
            code = words
            own = (code >= 0) & (code < s.vocab_size)
            found = [np.where(own, code, self._hashed(code))]
            for n in range(2, min(s.ngrams, len(words)) + 1):
                code = code[:-1] * MIX + n + words[n - 1 :]
                found.append(self._hashed(code))
        return np.concatenate(found)

    def _words(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a number for each word: a token's own, or Σ idₚ · MIXᵖ of several."""
        kinds = self.kinds[ids]
        goes_on = np.zeros(len(ids), bool)
        goes_on[1:] = (kinds[1:] == CONTINUES) & (kinds[:-1] != ALONE)
        place = np.arange(len(ids))
        within = place - np.maximum.accumulate(np.where(goes_on, 0, place))
        powers = np.ones(len(ids), np.int64)
        powers[1:] = np.full(len(ids) - 1, MIX).cumprod()
        word = (~goes_on).cumsum() - 1
        numbers = np.zeros(int(word[-1]) + 1, np.int64)
        np.add.at(numbers, word, ids * powers[within])
        return numbers

    def _hashed(self, code: NDArray[np.int64]) -> NDArray[np.int64]:
        s = self.settings
        return s.vocab_size + (code * MIX >> np.int64(24)) % s.ngram_buckets
