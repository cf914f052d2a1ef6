"""Both directions in one model: the source begins with a tag that names the language to write.

The tags `<2en>` and `<2fr>` are control symbols of the subwords. No text is ever split into them,
not even one that reads "<2fr>": code puts their ids in front.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.config import DataSettings
from glassformer.data.ragged import Ids
from glassformer.data.tokenizer import Tokenizer
from glassformer.data.typography import normalize


def tag_of(language: str) -> str:
    """The tag of a source that is to be translated into `language`."""
    return f"<2{language}>"


def tags(data: DataSettings) -> tuple[str, ...]:
    """The tags that the subwords of a run must have."""
    both = data.directions == "both"
    return tuple(map(tag_of, (data.source_language, data.target_language))) if both else ()


def targets(data: DataSettings) -> tuple[str, ...]:
    """The languages that a model writes, the main one first."""
    both = data.directions == "both"
    return (data.target_language, data.source_language) if both else (data.target_language,)


def from_language(data: DataSettings, to: str) -> str:
    """The language of the source when the target is `to`."""
    return data.target_language if to == data.source_language else data.source_language


class SourceTokenizer(Tokenizer):
    """Reads sources as the model was trained to: plain typography, then the tag of the target.

    `encode` and `spans` of an empty text are empty. Spans are places in the normalised text.
    """

    def __init__(self, tokenizer: Tokenizer, data: DataSettings, to: str) -> None:
        super().__init__(tokenizer.model)
        self.typography, self.language = data.typography, from_language(data, to)
        self.front = [self.tag_id(tag_of(to))] if data.directions == "both" else []

    def plain(self, text: str) -> str:
        """The text whose subwords are read."""
        return normalize(text, self.language) if self.typography else text

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        rows = super().encode([self.plain(text) for text in texts], threads)
        return [[*self.front, *ids] if ids else [] for ids in rows]

    def spans(self, text: str) -> list[tuple[int, int]]:
        found = super().spans(self.plain(text))
        return [*((0, 0) for _ in self.front), *found] if found else []


def tokenizers_for(
    data: DataSettings, tokenizers: dict[str, Tokenizer], to: str
) -> dict[str, Tokenizer]:
    """The tokenizers of a translator into `to`, by side."""
    source = tokenizers.get("joint") or tokenizers["source"]
    target = tokenizers.get("joint") or tokenizers["target"]
    return {"source": SourceTokenizer(source, data, to), "target": target}


class BothDirections:
    """Turns half of the pairs around, drawn by seed, and puts the tag in front of each source."""

    def __init__(self, tokenizer: Tokenizer, data: DataSettings) -> None:
        self.backward, self.forward = ([tokenizer.tag_id(tag)] for tag in tags(data))

    def __call__(
        self, sides: list[list[Ids]], source_of: NDArray[np.int64], seed: int
    ) -> list[list[Ids]]:
        turned = np.random.default_rng(seed).random(len(sides[0])) < 0.5
        return self.turn(sides, turned)

    def turn(self, sides: list[list[Ids]], turned: NDArray[np.bool_]) -> list[list[Ids]]:
        """The pairs with those of `turned` the other way round, all with their tags."""
        pairs = [
            (np.concatenate((self.backward, y)), x)
            if turn
            else (np.concatenate((self.forward, x)), y)
            for x, y, turn in zip(*sides, turned.tolist(), strict=True)
        ]
        return [[x for x, _ in pairs], [y for _, y in pairs]]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[^\W\d_]+['’]?")
# Frequent words of one language that are no frequent words of the other.
_FRENCH = _words(
    """le la les un une des du de et est à au aux en que qui ne pas je tu il elle nous vous ils
    elles ce cette ces se sa son ses mon ma mes ton ta tes notre votre leur leurs pour dans sur avec
    sans mais ou où donc par plus très bien bonjour merci oui non suis es sommes êtes sont ai avez
    avons ont été être avoir fait faire peut comme quand quel quelle tout tous toute y lui cela ça
    c' d' j' l' m' n' s' t' qu' salut bonsoir monsieur madame plaît aujourd hui demain hier ici là
    quoi"""
)
_ENGLISH = _words(
    """the an of and is in that it for was with he his be at by had not are but from have they which
    one you were all her she there would their we him been has when who will no more if out so said
    what up its about into than them can only some could these two may then do first any my now such
    like our over even most made after also did many before must through back where much your way
    down should because long each just those people how too little good very make world still own
    see work here get both between life being under never day same another know while last might
    great i am hello yes please thank thanks this does don didn isn aren wasn won let re ve ll"""
)
CERTAIN = 2  # frequent words of one language, none of the other: a single one may be a name
_ACCENTS = frozenset("éèêëàâçùûîïôœ")


def guess_language(text: str) -> str:
    """Guess "en" or "fr" by frequent words and accents; "en" where they do not tell."""
    found = _evidence(text)
    return "fr" if found["fr"] > found["en"] else "en"


def is_written_in(text: str, language: str) -> bool:
    """Return whether `text` is in `language`, "en" or "fr", and has no sign of another."""
    found = _evidence(text)
    return found.pop(language) >= CERTAIN and not any(found.values())


def language_shares(text: str) -> dict[str, float]:
    """Return the share of each language in the signs of a text, such as frequent words.

    They add up to one. A text without a sign has zeros.
    """
    found = _evidence(text)
    total = sum(found.values())
    return {language: count / total if total else 0.0 for language, count in found.items()}


def _evidence(text: str) -> dict[str, int]:
    """Count frequent words and accents of each language."""
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    bare = [word.removesuffix("'") for word in words]
    french = sum(word in _FRENCH or one in _FRENCH for word, one in zip(words, bare, strict=True))
    french += sum(not _ACCENTS.isdisjoint(word) for word in words)
    return {"en": sum(word in _ENGLISH for word in bare), "fr": french}


GUESSED = {"en", "fr"}  # languages that `guess_target` can tell apart


def guess_target(data: DataSettings, text: str) -> str:
    """Guess the language to translate `text` into, from the language that it is in."""
    return from_language(data, guess_language(text))
