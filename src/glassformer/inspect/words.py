"""Subwords as a reader sees them: one side of a trace, and attention between whole words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

SPACE = "▁"  # how sentencepiece writes the space before a word
INSIDE = "'’-"  # what stands inside words although it is no letter
MARKS = ("<s>", "</s>")


class Subwords(Protocol):
    """What is needed of a tokenizer."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def pieces(self, ids: Sequence[int]) -> list[str]: ...


@dataclass(frozen=True)
class Word:
    """Tokens from `start` up to but without `end`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Side:
    """Tokens of one side. Those that are in no word are marks: <s> and </s>."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    words: tuple[Word, ...]

    @property
    def marks(self) -> frozenset[int]:
        inside = {t for word in self.words for t in range(word.start, word.end)}
        return frozenset(set(range(len(self.ids))) - inside)

    def groups(self, marks: bool = True) -> tuple[Word, ...]:
        """Its words in their order and, if they are wanted, its marks as words of their own."""
        if not marks:
            return self.words
        alone = [Word(self.tokens[t], t, t + 1) for t in self.marks]
        return tuple(sorted([*self.words, *alone], key=lambda word: word.start))

    def each(self, marks: bool = True) -> tuple[Word, ...]:
        """The same, token by token."""
        shown = [t for t in range(len(self.ids)) if marks or t not in self.marks]
        return tuple(Word(readable(self.tokens[t]), t, t + 1) for t in shown)

    def read(self, beginning: int, token: str) -> "Side":
        """What a decoder reads where it says this side: the same one later, behind `beginning`."""
        words = [replace(word, start=word.start + 1, end=word.end + 1) for word in self.words]
        within = [replace(w, end=min(w.end, len(self.ids))) for w in words]
        return Side(
            self.text,
            (beginning, *self.ids[:-1]),
            (token, *self.tokens[:-1]),
            tuple(word for word in within if word.start < word.end),
        )


def side(tokenizer: Subwords, text: str, ids: Sequence[int]) -> Side:
    tokens = tokenizer.pieces(ids)
    words = [
        Word(tokenizer.decode(ids[start:end]).strip() or "".join(tokens[start:end]), start, end)
        for start, end in word_spans(tokens)
    ]
    return Side(text, tuple(ids), tuple(tokens), tuple(words))


def word_spans(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """From where to where the words go. Signs are words of their own; marks are none."""
    starts = [t for t in range(len(tokens)) if not t or _begins(tokens[t], tokens[t - 1])]
    spans = zip(starts, [*starts[1:], len(tokens)], strict=True)
    return [(start, end) for start, end in spans if tokens[start] not in MARKS]


def _begins(token: str, before: str) -> bool:
    if before == SPACE:  # a space by itself belongs to what follows it
        return token.startswith(SPACE) or token in MARKS
    return token.startswith(SPACE) or _is_alone(token) or _is_alone(before)


def _is_alone(token: str) -> bool:
    """A mark or a sign: neither letters nor figures nor what stands inside words."""
    text = token.removeprefix(SPACE)
    return token in MARKS or (bool(text) and not any(c.isalnum() or c in INSIDE for c in text))


def readable(token: str) -> str:
    """A token as it is shown: without the mark of a space, if anything else is there."""
    return token.removeprefix(SPACE) or token


def merged(
    attention: Float[Tensor, "*L T S"], rows: Sequence[Word], columns: Sequence[Word]
) -> Float[Tensor, "*L m n"]:
    """Attention between groups: summed over a column's tokens, the mean over a row's."""
    summed = [attention[..., word.start : word.end].sum(-1) for word in columns]
    if not rows or not summed:
        return attention.new_zeros(*attention.shape[:-2], len(rows), len(columns))
    by_column = torch.stack(summed, -1)
    means = [by_column[..., word.start : word.end, :].mean(-2) for word in rows]
    return torch.stack(means, -2)


def mark_ids(tokenizer: Subwords) -> tuple[int, int]:
    """The ids of <s> and </s>, which stand among the first."""
    first = tokenizer.pieces(range(4))
    bos, eos = (first.index(mark) for mark in MARKS)
    return bos, eos
