"""The embedded data set: English sentences, French translations, and gold word alignments.

A syntax tree (`tree`) is sampled at random (`sample`) under constraints of meaning (`usage`). It is
realised in both languages (`english`, `french`) as words with keys, the nodes that they express
(`tagged`). Two words are aligned if they share a key.
"""

from collections.abc import Iterator
from itertools import count as count_from
from itertools import islice

from glassformer.data.grammar import english, french
from glassformer.data.grammar.sample import Sampler
from glassformer.data.grammar.splits import SPLITS, belongs
from glassformer.data.grammar.tagged import AlignedPair, align, capitalised
from glassformer.data.grammar.tree import Sentence
from glassformer.errors import DataError

__all__ = ["SPLITS", "AlignedPair", "pairs", "realise"]

_LONGEST = 14  # English words and punctuation marks of a sentence


def pairs(split: str, count: int, seed: int = 0) -> Iterator[AlignedPair]:
    """Return `count` distinct pairs of a split, the same for a seed on every machine."""
    if split not in SPLITS:
        raise DataError(
            f"Unknown split {split!r}.",
            f"The grammar has {', '.join(SPLITS)}.",
            "Ask for one of these.",
        )
    return islice(_distinct(split, seed), count)


def realise(sentence: Sentence) -> AlignedPair:
    """Return a tree in both languages."""
    source, target = english.realise(sentence), french.realise(sentence)
    source_words, target_words = capitalised(source), capitalised(target)
    return AlignedPair(
        english.text(source_words),
        french.text(target_words),
        source_words,
        target_words,
        align(source, target),
    )


def _distinct(split: str, seed: int) -> Iterator[AlignedPair]:
    sampler, seen = Sampler(f"{split} {seed}"), set[str]()
    for _ in count_from():
        sentence = sampler.sentence()
        if not belongs(sentence, split):
            continue
        pair = realise(sentence)
        if len(pair.source_words) <= _LONGEST and pair.source not in seen:
            seen.add(pair.source)
            yield pair
