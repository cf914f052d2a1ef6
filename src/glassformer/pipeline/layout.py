"""Texts to sentences and back: the sentences are translated, the layout is kept."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from glassformer.data.sentences import is_wrapped, split_text, wrap_like
from glassformer.pipeline.protect import Protected, has_words, protect

T = TypeVar("T")


class Layout:
    """The sentences of several texts in one list, and the texts around them.

    Without `split` each text is one sentence, and its translation replaces all of it. With `split`
    what is not a sentence stays as it is: white space, list markers, numbers, addresses, and
    sentences for which `stays` is true. In the others items and capitals are protected, unless
    `protects` is false.
    """

    def __init__(
        self,
        texts: Sequence[str],
        split: bool,
        stays: Callable[[str], bool] = lambda _: False,
        protects: bool = True,
    ) -> None:
        leaves = _leaves(stays) if protects else stays
        self.segments = [split_text(text).leave(leaves) for text in texts] if split else None
        parts = [one.sentences for one in self.segments or []]
        self.parts = parts if split else [(text,) for text in texts]
        self.protected = [
            protect(sentence)
            if split and protects
            else Protected(sentence, sentence, (), capitals=False)
            for part in self.parts
            for sentence in part
        ]

    @property
    def unit(self) -> str:
        """Return the name of an item of `sentences` in errors."""
        return "text" if self.segments is None else "sentence"

    @property
    def sentences(self) -> list[str]:
        """The sentences as a model reads them."""
        return [one.text for one in self.protected]

    def lost(self, translations: Sequence[str]) -> list[int]:
        """Return the numbers of the translations that lost an item."""
        pairs = zip(self.protected, translations, strict=True)
        return [i for i, (one, text) in enumerate(pairs) if one.items and not one.kept(text)]

    def copied(self, translations: Sequence[str]) -> list[int]:
        """Return the numbers of single words with a capital that were copied."""
        pairs = zip(self.protected, translations, strict=True)
        return [i for i, (one, text) in enumerate(pairs) if one.is_word and one.text == text]

    def lower(self, number: int) -> str:
        """Put a sentence in small letters; return it as the model reads it."""
        self.protected[number] = self.protected[number].in_small_letters()
        return self.protected[number].text

    def unmask(self, number: int) -> Protected:
        """Put the items of a sentence back in place of their masks; return it as it was before."""
        before = self.protected[number]
        self.protected[number] = before.without_masks()
        return before

    def of_each_sentence(self, values: Sequence[T]) -> list[T]:
        """Return the value of its text for each sentence."""
        return [value for value, part in zip(values, self.parts, strict=True) for _ in part]

    def of_each_text(self, values: Sequence[T]) -> list[list[T]]:
        """Return the values of its sentences for each text."""
        remaining = iter(values)
        return [[next(remaining) for _ in part] for part in self.parts]

    def join(self, translations: Sequence[str]) -> list[str]:
        """Return the texts with their sentences replaced by `translations`."""
        pairs = zip(self.protected, translations, strict=True)
        by_text = self.of_each_text([one.restore(text) for one, text in pairs])
        if self.segments is None:
            return [translation for (translation,) in by_text]
        return [one.join(part) for one, part in zip(self.segments, by_text, strict=True)]


def _leaves(stays: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda sentence: stays(sentence) or not has_words(sentence)


def wrap_spaces(source: str, text: str) -> str:
    """Return `text` with the white space that `source` begins and ends with."""
    begin, end = len(source) - len(source.lstrip()), len(source.rstrip())
    return source[:begin] + text + source[end:]


def rewrap(sentence: str, pieces: Iterable[str]) -> Iterator[str]:
    """Yield `pieces`, or all of them as one if the lines of `sentence` are wrapped."""
    if not is_wrapped(sentence):
        yield from pieces
    elif text := "".join(pieces):
        yield wrap_like(sentence, text)
