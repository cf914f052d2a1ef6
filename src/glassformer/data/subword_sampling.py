"""Subword regularisation: another split of the same text, drawn from a generator of our own.

A draw is a function of the text and of a seed alone. sentencepiece's own generator is not used: it
is seeded by the process, so that no two processes would draw the same.
"""

import re
from bisect import bisect
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import exp, log
from random import Random
from typing import NamedTuple

import numpy as np

SPACE = "▁"  # what sentencepiece puts in place of a space
WORD = re.compile(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+")
CACHED_SPLITS = 2**17  # of some 300 bytes each
CACHED_LENGTH = 32  # characters of a word: longer ones hardly come twice, and take memory
UNKNOWN_PENALTY = 10.0  # nats below the rarest piece, as sentencepiece scores unknown characters

Draw = Callable[[], float]  # a number from 0 to 1, without 1
Split = Callable[[str, float, Draw], Sequence[int]]  # word, alpha: ids
Piece = tuple[int, tuple[int, ...]]  # where it begins in its word, and its ids


class Vocabulary(NamedTuple):
    """Pieces and scores of a sentencepiece model, for sampling."""

    pieces: dict[str, tuple[int, float]]  # those that spell text: id, and score or merge priority
    unknown: int
    byte_ids: Sequence[int]  # of the 256 bytes, or none

    def spell(self, character: str) -> tuple[int, ...]:
        """Return the ids of a character that has no piece."""
        if not self.byte_ids:
            return (self.unknown,)
        return tuple(self.byte_ids[byte] for byte in character.encode())


class SubwordSampler:
    """Draws splits of texts, word by word: no piece reaches over a space.

    In BPE every merge is left out with probability `alpha` (Provilkov et al., 2020). A unigram
    model draws a split in proportion to its probability to the power of `alpha` (Kudo, 2018).
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        ranks = [rank for _, rank in vocabulary.pieces.values()]
        is_bpe = all(rank.is_integer() for rank in ranks)  # 0, -1, -2, …: the order of merges
        self._split: Split = MergeDropout(vocabulary) if is_bpe else Lattice(vocabulary)
        self._unknown = vocabulary.unknown
        self._by_word = not any(SPACE in piece[1:] for piece in vocabulary.pieces)

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Split normalised texts: number i by (seed, i), whatever the other texts are."""
        seeds = np.random.SeedSequence(seed).generate_state(len(texts), np.uint64).tolist()
        return [
            self._sample_one(text, alpha, Random(own).random)
            for text, own in zip(texts, seeds, strict=True)
        ]

    def _sample_one(self, text: str, alpha: float, draw: Draw) -> list[int]:
        ids: list[int] = []
        for word in WORD.findall(text) if self._by_word else [text]:
            ids.extend(self._split(word, alpha, draw))
        if self._unknown in ids:  # sentencepiece makes one <unk> of several in a row
            ids = [i for i, before in zip(ids, [-1, *ids], strict=False)
                   if i != self._unknown or i != before]  # fmt: skip
        return ids


class MergeDropout:
    """BPE in which the next merge in order is left out, once and for all, with some probability."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._cached = lru_cache(CACHED_SPLITS)(self.merged)

    def __call__(self, word: str, alpha: float, draw: Draw) -> Sequence[int]:
        if len(word) > CACHED_LENGTH:  # at most 3 merges a character are ever decided on
            return self.merged(word, {i for i in range(3 * len(word)) if draw() < alpha})[0]
        left_out: tuple[int, ...] = ()
        ids, decisions = self._cached(word, left_out)
        number = 0
        while number < decisions:
            if draw() < alpha:
                left_out = (*left_out, number)
                ids, decisions = self._cached(word, left_out)
            number += 1
        return ids

    def merged(self, word: str, left_out: Collection[int]) -> tuple[tuple[int, ...], int]:
        """Merge the characters of a word but for the merges of these numbers.

        Return the ids and the number of merges that were decided on. Merges come in the order of
        their priority, the leftmost of equal ones first.
        """
        pieces, size = self.vocabulary.pieces, len(word)
        end = list(range(1, size + 1))  # of the symbol that begins here
        begin = list(range(-1, size))  # of the symbol that ends here
        waiting = [
            (-pieces[word[i : i + 2]][1], i, i + 1, i + 2)
            for i in range(size - 1)
            if word[i : i + 2] in pieces
        ]
        heapify(waiting)
        gone = [False] * size  # positions within a symbol
        decisions = 0
        while waiting:
            _, left, middle, right = heappop(waiting)
            if gone[left] or end[left] != middle or gone[middle] or end[middle] != right:
                continue  # one of the two symbols has become part of another
            decisions += 1
            if decisions - 1 in left_out:
                continue
            gone[middle], end[left], begin[right] = True, right, left
            around = [(begin[left], left, right)] if left else []
            around += [(left, right, end[right])] if right < size else []
            for one, two, three in around:
                if (joined := word[one:three]) in pieces:
                    heappush(waiting, (-pieces[joined][1], one, two, three))
        ids: list[int] = []
        for start in range(size):
            if not gone[start]:
                symbol = word[start : end[start]]
                ids += [pieces[symbol][0]] if symbol in pieces else self.vocabulary.spell(symbol)
        return tuple(ids), decisions


class Lattice:
    """All splits of a word by a unigram model: forward filtering, backward sampling."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._longest = max(map(len, vocabulary.pieces))
        lowest = min(score for _, score in vocabulary.pieces.values())
        self._unknown_score = lowest - UNKNOWN_PENALTY
        self._cached = lru_cache(CACHED_SPLITS)(self.ends)

    def __call__(self, word: str, alpha: float, draw: Draw) -> Sequence[int]:
        ends = (self._cached if len(word) <= CACHED_LENGTH else self.ends)(word, alpha)
        parts: list[tuple[int, ...]] = []
        at = len(word)
        while at:
            cumulative, choices = ends[at]
            at, ids = choices[bisect(cumulative, draw())]
            parts.append(ids)
        return [i for ids in reversed(parts) for i in ids]

    def ends(self, word: str, alpha: float) -> list[tuple[list[float], list[Piece]]]:
        """Return the pieces that end at each position, with their cumulative probabilities.

        These are over all splits of the word up to that position. The last one, 1, is left out.
        """
        total = [0.0]  # log of the sum over all splits up to each position
        found: list[tuple[list[float], list[Piece]]] = [([], [])]
        for end in range(1, len(word) + 1):
            choices: list[Piece] = []
            scores: list[float] = []
            for begin in range(max(0, end - self._longest), end):
                if (piece := word[begin:end]) in self.vocabulary.pieces:
                    number, score = self.vocabulary.pieces[piece]
                    choices.append((begin, (number,)))
                elif begin == end - 1:
                    score = self._unknown_score
                    choices.append((begin, self.vocabulary.spell(piece)))
                else:
                    continue
                scores.append(total[begin] + alpha * score)
            highest = max(scores)
            total.append(highest + log(sum(exp(score - highest) for score in scores)))
            cumulative = accumulate(exp(score - total[end]) for score in scores[:-1])
            found.append((list(cumulative), choices))
        return found
