"""Kinds of models, by the examples that they read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Ids = list[int]


@dataclass(frozen=True)
class Kind:
    """The sides that are text, the label, and the treatment of texts that are too long."""

    text_sides: tuple[str, ...] = ("source",)  # by the names of their tokenizers
    too_long: Literal["drop", "cut", "split"] = "cut"
    has_label: bool = False  # one for each text
    special_tokens: int = 1  # that a batch adds to each text: <s> or </s>
    masks_validation: bool = False  # masked tokens are what is predicted, not noise

    def fit(self, sides: list[list[Ids]], longest: int) -> tuple[list[list[Ids]], list[int]]:
        """Return the ids of each side within `longest`, and the indices of the rows to keep.

        A pair with a side that is too long is dropped. Another text is cut, or split into rows of
        its own.
        """
        if self.too_long == "drop":
            rows = zip(*sides, strict=True)
            return sides, [i for i, row in enumerate(rows) if max(map(len, row)) <= longest]
        (texts,) = sides
        if self.too_long == "split":
            texts = [piece for text in texts for piece in _pieces(text, longest)]
        else:
            texts = [text[:longest] for text in texts]
        return [texts], list(range(len(texts)))


def _pieces(ids: Ids, longest: int) -> Iterator[Ids]:
    """Yield the fewest pieces of at most `longest` ids, of about equal length."""
    count = -(-len(ids) // longest)
    for i in range(count):
        yield ids[len(ids) * i // count : len(ids) * (i + 1) // count]


KINDS = {
    "translator": Kind(("source", "target"), too_long="drop"),
    "language-model": Kind(),
    "masked-language-model": Kind(too_long="split", masks_validation=True),
    "classifier": Kind(has_label=True),
    "tagger": Kind(special_tokens=0),
}
