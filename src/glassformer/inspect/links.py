"""Links between words, read off attention; how right they are, and how much they tell.

A target word is linked to the source word that it attends to most, or by share: to the source word
of whose attention it has the largest part. Nouns and verbs are looked at by the small words around
them, too, and are thus left to their own translations.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

RESAMPLES = 1_000  # of the bootstrap that an interval comes from

Links = frozenset[tuple[int, int]]  # (source word, target word), from 0


class WordPair(Protocol):
    """A sentence and its translation, as text and as words in the order of the text."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def source_words(self) -> tuple[str, ...]: ...
    @property
    def target_words(self) -> tuple[str, ...]: ...


class AlignedPair(WordPair, Protocol):
    """The same with the truth."""

    @property
    def alignment(self) -> Links: ...


@dataclass(frozen=True)
class TextPair:
    """A pair of the user's own."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]


# Out of attention


def by_share(attention: Float[Tensor, "*any m n"]) -> Float[Tensor, "*any m n"]:
    """Of what each source word gets in all, the part that comes from each target word."""
    return F.normalize(attention, p=1, dim=-2)


def most(attention: Float[Tensor, "*any m n"]) -> Int[Tensor, "*any m"]:
    """The source word that each target word attends to most.

    -1 for a word without attention, since no subword stands for it.
    """
    value, where = attention.max(-1)
    return where.masked_fill(value <= 0, -1)


def links(attention: Float[Tensor, "m n"]) -> Links:
    """Each target word with the source word that it attends to most, as (source, target)."""
    return as_links(most(attention).tolist())


def as_links(sources: Sequence[int]) -> Links:
    return frozenset((source, target) for target, source in enumerate(sources) if source >= 0)


def pharaoh(found: Links) -> str:
    """0-0 1-2: source word - target word, as aligners have written it since Pharaoh."""
    return " ".join(f"{source}-{target}" for source, target in sorted(found))


# What a reader judges by


def diagonal(pair: WordPair) -> Links:
    """Each target word with the source word at the same place, relative to the lengths."""
    m, n = len(pair.target_words), len(pair.source_words)
    return frozenset(((2 * t + 1) * n // (2 * m), t) for t in range(m))


def at_random(pair: WordPair, random: np.random.Generator) -> Links:
    """Each target word with any source word."""
    drawn = random.integers(len(pair.source_words), size=len(pair.target_words))
    return frozenset((int(source), target) for target, source in enumerate(drawn))


def one_true_link(pair: AlignedPair) -> Links:
    """The best that one link for each target word can be; a word that has none is left out."""
    return frozenset({target: (source, target) for source, target in pair.alignment}.values())


# How right they are, and how much they tell


@dataclass(frozen=True)
class Tally:
    """For each sentence, how many links are found and true, found, and true."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, found: Iterable[Links], gold: Iterable[Links]) -> "Tally":
        pairs = zip(found, gold, strict=True)
        return cls(np.array([(len(a & g), len(a), len(g)) for a, g in pairs], np.int64))

    @property
    def error_rate(self) -> float:
        return float(_rate(self.counts.sum(0)))

    @property
    def precision(self) -> float:
        common, found, _ = self.counts.sum(0)
        return float(common / max(1, found))

    @property
    def recall(self) -> float:
        common, _, gold = self.counts.sum(0)
        return float(common / max(1, gold))

    def interval(self, resamples: int = RESAMPLES, seed: int = 0) -> tuple[float, float]:
        """95% of the error rates of as many sentences drawn from these: the bootstrap."""
        count = len(self.counts)
        drawn = np.random.default_rng(seed).multinomial(count, [1 / count] * count, resamples)
        low, high = np.percentile(_rate(drawn @ self.counts), (2.5, 97.5))
        return float(low), float(high)


def _rate(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """AER = 1 - 2 |A ∩ G| / (|A| + |G|) (Och and Ney, 2003), where all true links are sure."""
    common, found, gold = np.moveaxis(counts, -1, 0)
    return 1 - 2 * common / (found + gold)


def error_rate(found: Iterable[Links], gold: Iterable[Links]) -> float:
    """The alignment error rate over the links of all sentences."""
    return Tally.of(found, gold).error_rate


def mutual_information(pairs: Counter[tuple[str, str]]) -> float:
    """How much, in bits, one side of a pair tells of the other."""
    left, right = Counter[str](), Counter[str]()
    for (a, b), count in pairs.items():
        left[a] += count
        right[b] += count
    total = pairs.total()
    shares = ((n / total, n * total / (left[a] * right[b])) for (a, b), n in pairs.items())
    return sum(share * log2(ratio) for share, ratio in shares)
