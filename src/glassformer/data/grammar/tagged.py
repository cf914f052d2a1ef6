"""Words with the keys that they express, and the gold alignment of two sentences.

A key is a node of the tree and the part of it that a word expresses. Both languages are realised
from the same tree, so two words are translations of each other exactly if they share a key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glassformer.data.grammar.tree import Clause, Sentence
from glassformer.data.grammar.words import Question

Key = tuple[object, str]


class Word(NamedTuple):
    text: str
    keys: tuple[Key, ...]


def words(text: str, *keys: Key) -> list[Word]:
    """Return the words of an expression, all with the same keys."""
    return [Word(part, keys) for part in text.split()]


def sentence_words(
    sentence: Sentence,
    link: str,
    clause: Callable[[Clause], list[Word]],
    question: Callable[[Sentence, Question], list[Word]],
) -> list[Word]:
    """Return a question, or one or two clauses with their link, and the final mark."""
    if sentence.question is not None:
        return [*question(sentence, sentence.question), Word("?", ((sentence, "end"),))]
    found = clause(sentence.clause)
    if sentence.link is not None and sentence.second is not None:
        conjunction, second = words(link, (sentence, "link")), clause(sentence.second)
        if sentence.link.leads:
            found = [*conjunction, *found, Word(",", ((sentence, "comma"),)), *second]
        else:
            found = [*found, *conjunction, *second]
    return [*found, Word(".", ((sentence, "end"),))]


def adverb(clause: Clause, name: str, labelled: tuple[tuple[str, str], ...]) -> list[Word]:
    """Return the words of an adverb; words with the same label translate each other."""
    return [Word(word, ((clause, name + label),)) for word, label in labelled]


@dataclass(frozen=True)
class AlignedPair:
    """A sentence, its translation, the words of both and their alignment.

    The words are in the order of the text, with nothing but spaces between them. "L'" and "homme"
    are two words, and so are "king" and "'s"; a punctuation mark is a word.
    """

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]  # (source word, target word), from 0


def align(source: Sequence[Word], target: Sequence[Word]) -> frozenset[tuple[int, int]]:
    """Join two sentences on their keys."""
    places: dict[Key, list[int]] = {}
    for i, word in enumerate(source):
        for key in word.keys:
            places.setdefault(key, []).append(i)
    return frozenset(
        (i, j) for j, word in enumerate(target) for key in word.keys for i in places.get(key, ())
    )


def capitalised(sentence: Sequence[Word]) -> tuple[str, ...]:
    """Return the words as text, the first with a capital letter."""
    first = sentence[0].text
    return (first[0].upper() + first[1:], *[word.text for word in sentence[1:]])
