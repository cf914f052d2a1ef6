"""Texts to sentences and back: the layout of a text is kept, its sentences are translated."""

from collections.abc import Sequence
from typing import TypeVar

from glassformer.data.sentences import split_text

T = TypeVar("T")


class Layout:
    """The sentences of several texts in one list, and the way back.

    Without `split` each text is one sentence, and its translation replaces all of it. With `split`
    what is not a sentence stays as it is: white space, list markers, numbers, addresses.
    """

    def __init__(self, texts: Sequence[str], split: bool) -> None:
        self.segments = [split_text(text) for text in texts] if split else None
        parts = [one.sentences for one in self.segments] if self.segments else []
        self.parts = parts if split else [(text,) for text in texts]

    @property
    def unit(self) -> str:
        """What an error calls an item of `sentences`."""
        return "text" if self.segments is None else "sentence"

    @property
    def sentences(self) -> list[str]:
        return [sentence for part in self.parts for sentence in part]

    def of_each_sentence(self, values: Sequence[T]) -> list[T]:
        """Return the value of its text for each sentence."""
        return [value for value, part in zip(values, self.parts, strict=True) for _ in part]

    def of_each_text(self, values: Sequence[T]) -> list[list[T]]:
        """Return the values of its sentences for each text."""
        remaining = iter(values)
        return [[next(remaining) for _ in part] for part in self.parts]

    def join(self, translations: Sequence[str]) -> list[str]:
        """Return the texts with their sentences replaced by `translations`."""
        by_text = self.of_each_text(translations)
        if self.segments is None:
            return [translation for (translation,) in by_text]
        return [one.join(part) for one, part in zip(self.segments, by_text, strict=True)]
