"""Words that know what they express, and what is made of them: text, and the gold alignment.

A key is a node of the tree and the part of it that a word expresses. Both languages are spoken
from the same tree, so two words are translations of each other exactly where they share a key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Key = tuple[object, str]


class Word(NamedTuple):
    text: str
    keys: tuple[Key, ...]


def words(text: str, *keys: Key) -> list[Word]:
    """Each word of an expression, all saying the same."""
    return [Word(part, keys) for part in text.split()]


@dataclass(frozen=True)
class AlignedPair:
    """A sentence, its translation, the words of both and which of them translate which.

    The words stand in the text in their order, with nothing but spaces between them. "L'" and
    "homme" are two words, and so are "king" and "'s"; punctuation is a word of its own.
    """

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]  # (source word, target word), from 0


def align(source: Sequence[Word], target: Sequence[Word]) -> frozenset[tuple[int, int]]:
    """The join of two sentences on their keys."""
    places: dict[Key, list[int]] = {}
    for i, word in enumerate(source):
        for key in word.keys:
            places.setdefault(key, []).append(i)
    return frozenset(
        (i, j) for j, word in enumerate(target) for key in word.keys for i in places.get(key, ())
    )


def capitalised(sentence: Sequence[Word]) -> tuple[str, ...]:
    """The words as text, the first with a capital letter."""
    first = sentence[0].text
    return (first[0].upper() + first[1:], *[word.text for word in sentence[1:]])
