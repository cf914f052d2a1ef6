"""Noise for robustness: case, missing punctuation, joined sentences and copied items.

Both sides of a pair are changed. Only changed pairs are decoded and tokenised again. The changes of
a pair depend on its seed alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from glassformer.config import NoiseSettings
from glassformer.data.copying import copied_pair
from glassformer.data.ragged import Ids
from glassformer.data.tokenizer import Tokenizer

Pair = tuple[str, str]
_FINAL = re.compile(r"\s*[.!?;:,]+$")
_SENTENCE = re.compile(r"[.!?][\"')\]]?$")


@dataclass(frozen=True)
class Noise:
    """An augmentation that changes the shares of pairs given by the settings."""

    shares: NoiseSettings
    tokenizers: Sequence[Tokenizer]  # of each side
    languages: tuple[str, str]  # of the sides
    max_length: int  # in subwords; a pair that would become longer is not changed

    def __call__(
        self, sides: list[list[Ids]], source_of: NDArray[np.int64], seed: int
    ) -> list[list[Ids]]:
        """Draw case, final punctuation and additions independently, and change the pairs."""
        s, random = self.shares, np.random.default_rng(seed)
        case, ending, addition, first = random.random((4, len(source_of)))
        seeds = random.integers(2**63, size=len(source_of))
        lower, upper = case < s.lower, case >= 1 - s.upper
        bare, capital = ending < s.unpunctuated, first < s.capitalised
        copied = addition >= 1 - s.copied
        joined = (addition < s.joined) & (source_of == np.append(source_of[1:], -1))
        chosen = np.flatnonzero(lower | upper | bare | capital | copied | joined).tolist()
        pairs: list[Pair] = []
        for i in chosen:
            pair = self._text(sides, i)
            if joined[i]:
                pair = join(pair, self._text(sides, i + 1))
            if copied[i]:
                pair = copied_pair(pair, self.languages, Random(int(seeds[i])))
            if bare[i]:
                pair = strip_final(pair)
            if capital[i]:
                pair = capitalise(pair)
            if lower[i] or upper[i]:
                pair = change_case(pair, upper=bool(upper[i]))
            pairs.append(pair)
        return self._replaced(sides, chosen, pairs)

    def _text(self, sides: list[list[Ids]], row: int) -> Pair:
        x, y = (t.decode(list(side[row])) for t, side in zip(self.tokenizers, sides, strict=True))
        return x, y

    def _replaced(
        self, sides: list[list[Ids]], rows: list[int], pairs: list[Pair]
    ) -> list[list[Ids]]:
        changed = [list(side) for side in sides]
        if not pairs:
            return changed
        by_side = zip(self.tokenizers, zip(*pairs, strict=True), strict=True)
        new = [tokenizer.encode(texts) for tokenizer, texts in by_side]
        for row, *ids in zip(rows, *new, strict=True):
            if all(0 < len(one) <= self.max_length for one in ids):
                for side, one in zip(changed, ids, strict=True):
                    side[row] = one
        return changed


def join(pair: Pair, following: Pair) -> Pair:
    """Join two pairs; return `pair` itself if one of the four texts does not end a sentence."""
    if not all(_SENTENCE.search(text) for text in (*pair, *following)):
        return pair
    return f"{pair[0]} {following[0]}", f"{pair[1]} {following[1]}"


def strip_final(pair: Pair) -> Pair:
    """Remove the punctuation at the end of both sides, unless a side is only punctuation."""
    x, y = (_FINAL.sub("", text) for text in pair)
    return (x, y) if x and y else pair


def capitalise(pair: Pair) -> Pair:
    """Start both sides with a capital letter, as a word that stands alone often does."""
    x, y = (text[:1].upper() + text[1:] for text in pair)
    return x, y


def change_case(pair: Pair, upper: bool) -> Pair:
    """Return both sides in upper case, or both in lower case."""
    x, y = pair
    return (x.upper(), y.upper()) if upper else (x.lower(), y.lower())
