"""Links between words from attention, their error rate, and their mutual information.

A target word is linked to the source word with the highest attention. By share, attention is first
divided by the total that each source word receives: a content word that its neighbours attend to
as well then keeps its own translation.
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

RESAMPLES = 1_000  # of the bootstrap: its 2.5% tail then has 25 of them

Links = frozenset[tuple[int, int]]  # (source word, target word), from 0


class WordPair(Protocol):
    """A sentence and its translation, each as text and as words in text order."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def source_words(self) -> tuple[str, ...]: ...
    @property
    def target_words(self) -> tuple[str, ...]: ...


class AlignedPair(WordPair, Protocol):
    """A word pair with gold links."""

    @property
    def alignment(self) -> Links: ...


@dataclass(frozen=True)
class TextPair:
    """A pair from the user."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]


# Links from attention


def by_share(attention: Float[Tensor, "*any m n"]) -> Float[Tensor, "*any m n"]:
    """Divide the attention on each source word by its total over the target words."""
    return F.normalize(attention, p=1, dim=-2)


def strongest_source(attention: Float[Tensor, "*any m n"]) -> Int[Tensor, "*any m"]:
    """Return the source word with the highest attention of each target word.

    It is -1 for a word without attention, which has no subword.
    """
    value, where = attention.max(-1)
    return where.masked_fill(value <= 0, -1)


def links(attention: Float[Tensor, "m n"]) -> Links:
    """Link each target word to the source word that it attends to most: (source, target)."""
    return as_links(strongest_source(attention).tolist())


def as_links(sources: Sequence[int]) -> Links:
    return frozenset((source, target) for target, source in enumerate(sources) if source >= 0)


def pharaoh(found: Links) -> str:
    """Format links as "0-0 1-2", source-target: the Pharaoh format."""
    return " ".join(f"{source}-{target}" for source, target in sorted(found))


# Baselines and the upper limit


def diagonal(pair: WordPair) -> Links:
    """Link each target word to the source word at the same relative position."""
    m, n = len(pair.target_words), len(pair.source_words)
    return frozenset(((2 * t + 1) * n // (2 * m), t) for t in range(m))


def at_random(pair: WordPair, random: np.random.Generator) -> Links:
    """Link each target word to a random source word."""
    drawn = random.integers(len(pair.source_words), size=len(pair.target_words))
    return frozenset((int(source), target) for target, source in enumerate(drawn))


def one_true_link(pair: AlignedPair) -> Links:
    """Return one gold link per target word: the best that one link per word can reach."""
    return frozenset({target: (source, target) for source, target in pair.alignment}.values())


# Scores


@dataclass(frozen=True)
class Tally:
    """Number of correct, found and gold links of each sentence."""

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
        """Return the 95% bootstrap interval of the error rate over sentences."""
        count = len(self.counts)
        drawn = np.random.default_rng(seed).multinomial(count, [1 / count] * count, resamples)
        low, high = np.percentile(_rate(drawn @ self.counts), (2.5, 97.5))
        return float(low), float(high)


def _rate(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """AER = 1 - 2 |A ∩ G| / (|A| + |G|) (Och and Ney, 2003), where all gold links are sure."""
    common, found, gold = np.moveaxis(counts, -1, 0)
    return 1 - 2 * common / (found + gold)


def error_rate(found: Iterable[Links], gold: Iterable[Links]) -> float:
    """Return the alignment error rate over the links of all sentences."""
    return Tally.of(found, gold).error_rate


def mutual_information(pairs: Counter[tuple[str, str]]) -> float:
    """Return the mutual information of the two sides of a pair, in bits."""
    left, right = Counter[str](), Counter[str]()
    for (a, b), count in pairs.items():
        left[a] += count
        right[b] += count
    total = pairs.total()
    shares = ((n / total, n * total / (left[a] * right[b])) for (a, b), n in pairs.items())
    return sum(share * log2(ratio) for share, ratio in shares)
