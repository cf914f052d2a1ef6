"""The embedded data set: English sentences, their French, and which words translate which.

A small tree says what a sentence means (`tree`); it is drawn at random from what may be said
(`sample`, `usage`), and spoken in both languages (`english`, `french`) in words that know what they
express (`tagged`). The alignment is where two words express the same.
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

__all__ = ["SPLITS", "AlignedPair", "pairs", "speak"]

_LONGEST = 14  # English words, with punctuation


def pairs(split: str, count: int, seed: int = 0) -> Iterator[AlignedPair]:
    """`count` distinct pairs of a split, the same for the same seed on every machine."""
    if split not in SPLITS:
        raise DataError(
            f"Unknown split {split!r}.",
            f"The grammar has {', '.join(SPLITS)}.",
            "Ask for one of these.",
        )
    return islice(_distinct(split, seed), count)


def speak(sentence: Sentence) -> AlignedPair:
    """A tree in both languages."""
    source, target = english.speak(sentence), french.speak(sentence)
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
        pair = speak(sentence)
        if len(pair.source_words) <= _LONGEST and pair.source not in seen:
            seen.add(pair.source)
            yield pair
