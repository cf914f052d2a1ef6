"""Tokens of one side of a trace, their words, and attention merged to words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

SPACE = "▁"  # sentencepiece's mark of the space before a word
INSIDE = "'’-"  # punctuation inside words
MARKS = ("<s>", "</s>")


class Subwords(Protocol):
    """The part of a tokenizer that traces need."""

    bos_id: int
    eos_id: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def pieces(self, ids: Sequence[int]) -> list[str]: ...
    def shown_pieces(self, ids: Sequence[int]) -> list[str]: ...


@dataclass(frozen=True)
class Word:
    """The tokens from `start` to `end`, exclusive."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Side:
    """Tokens of one side. Tokens outside words are marks, such as <s> and </s>."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    words: tuple[Word, ...]

    @property
    def marks(self) -> frozenset[int]:
        inside = {t for word in self.words for t in range(word.start, word.end)}
        return frozenset(set(range(len(self.ids))) - inside)

    def groups(self, marks: bool = True) -> tuple[Word, ...]:
        """Return the words in order and, if `marks`, the marks as single words."""
        if not marks:
            return self.words
        single = [Word(self.tokens[t], t, t + 1) for t in self.marks]
        return tuple(sorted([*self.words, *single], key=lambda word: word.start))

    def each(self, marks: bool = True) -> tuple[Word, ...]:
        """Return each token as a word."""
        shown = [t for t in range(len(self.ids)) if marks or t not in self.marks]
        return tuple(Word(readable(self.tokens[t]), t, t + 1) for t in shown)

    def shifted(self, bos: int, token: str) -> "Side":
        """Return the decoder input for this output: `bos`, then all tokens but the last."""
        words = [replace(word, start=word.start + 1, end=word.end + 1) for word in self.words]
        within = [replace(w, end=min(w.end, len(self.ids))) for w in words]
        return Side(
            self.text,
            (bos, *self.ids[:-1]),
            (token, *self.tokens[:-1]),
            tuple(word for word in within if word.start < word.end),
        )


def side(tokenizer: Subwords, text: str, ids: Sequence[int]) -> Side:
    tokens = tokenizer.shown_pieces(ids)
    words = [
        Word(tokenizer.decode(ids[start:end]).strip() or "".join(tokens[start:end]), start, end)
        for start, end in word_spans(tokens, marks_of(tokenizer))
    ]
    return Side(text, tuple(ids), tuple(tokens), tuple(words))


def marks_of(tokenizer: Subwords) -> frozenset[str]:
    """Return the names of the tokens that stand for no text."""
    ids = {tokenizer.bos_id, tokenizer.eos_id, *tokenizer.before, *tokenizer.after}
    return frozenset(tokenizer.pieces(sorted(ids)))


def word_spans(
    tokens: Sequence[str], marks: frozenset[str] = frozenset(MARKS)
) -> list[tuple[int, int]]:
    """Return start and end of each word. A punctuation token is a word; marks are none."""
    single = [token in marks or _is_punctuation(token) for token in tokens]
    starts = [t for t in range(len(tokens)) if not t or _begins(t, tokens, marks, single)]
    spans = zip(starts, [*starts[1:], len(tokens)], strict=True)
    return [(start, end) for start, end in spans if tokens[start] not in marks]


def _begins(t: int, tokens: Sequence[str], marks: frozenset[str], single: Sequence[bool]) -> bool:
    if tokens[t - 1] == SPACE:  # a single space belongs to the next token
        return tokens[t].startswith(SPACE) or tokens[t] in marks
    return tokens[t].startswith(SPACE) or single[t] or single[t - 1]


def _is_punctuation(token: str) -> bool:
    """Return whether a token has neither letters nor digits."""
    text = token.removeprefix(SPACE)
    return bool(text) and not any(c.isalnum() or c in INSIDE for c in text)


def readable(token: str) -> str:
    """Return a token without the mark of a space, unless it is nothing else."""
    return token.removeprefix(SPACE) or token


def merged(
    attention: Float[Tensor, "*L T S"], rows: Sequence[Word], columns: Sequence[Word]
) -> Float[Tensor, "*L m n"]:
    """Merge attention to words: the sum over a column's tokens, the mean over a row's."""
    summed = [attention[..., word.start : word.end].sum(-1) for word in columns]
    if not rows or not summed:
        return attention.new_zeros(*attention.shape[:-2], len(rows), len(columns))
    by_column = torch.stack(summed, -1)
    means = [by_column[..., word.start : word.end, :].mean(-2) for word in rows]
    return torch.stack(means, -2)
