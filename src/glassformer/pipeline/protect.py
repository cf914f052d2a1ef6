"""Protection of text that a model need not translate: capitals, and items copied to the letter.

An item is an address, a placeholder, a tag, code, an emoji or a word in another script. The model
reads `{1}`, `{2}`, … in their place, which it copies more surely than a long address.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from glassformer.data.sentences import EMOJI

MIN_CAPITALS = 5  # letters; shorter texts in capitals are mostly abbreviations: NATO, USA, OK
MAX_ITEMS = 9  # of one digit each: a sentence with more is mostly code, and is read as it is
# Of file names and domains; any other word after a full stop may be a sentence without its space.
SUFFIXES = """
com org net edu gov io fr uk de eu ca ch info c cfg conf cpp css csv doc docx exe gif gz htm html
ini jpeg jpg js json log md mp3 mp4 pdf png pptx py sh svg toml ts txt wav xlsx xml yaml yml zip
"""
ITEM = re.compile(
    rf"""
      (?:https?://|www\.) [^\s<>"”»]* [^\s<>"”».,;:!?)]       # URL
    | (?<![\w.+-]) [\w.+-]++ @ [\w-]+ (?:\.[\w-]+)+           # e-mail address
    | </?[A-Za-z][^<>\n]*>                                    # tag
    | \{{\{{?[\w.]*\}}?\}} | %\(\w+\)[sd] | %\d?[sd](?!\w) | \$\{{?[A-Za-z_]\w*\}}?  # placeholder
    | `[^`\n]+`                                               # quoted code
    | (?<![\w-]) --[A-Za-z][\w-]*                             # option
    | (?<![\w/]) ~?/[\w.-]*\w (?:/[\w.-]*\w)+                 # path
    | (?<!\w) [@\#][A-Za-z]\w*                                # mention, hashtag
    | (?<![\w.-]) \w[\w.-]* \.(?:{"|".join(SUFFIXES.split())}) (?!\w)  # file name, domain
    | (?<!\w) \w+ (?:=\w+|\(\))                              # assignment, call
    | (?<!\w) (?:[A-Za-z0-9]+ (?:_[A-Za-z0-9]+)+ | [a-z]+[A-Z]\w*) (?!\w)  # snake_case, camelCase
    | [{EMOJI}]+                                              # emoji
    | (?:(?![\u1e00-\u1eff\ufb00-\ufb06])[\u0370-\U0001efff](?<=\w))+  # letters, not Latin
    """,
    re.VERBOSE,
)
MASK = re.compile(r"\{(\d)\}")
SPACED = re.compile(r"(\s?)\{(\d)\}(\s?)")
FIRST_WORD = re.compile(r"[\W_]*([^\W\d_]+)")  # its letters, behind quotes and the like
PRONOUN = re.compile(r"\bi\b")


def has_words(text: str) -> bool:
    """Return whether letters are left without the items of `text`."""
    return any(map(str.isalpha, ITEM.sub(" ", text)))


@dataclass(frozen=True)
class Protected:
    """A sentence as the model reads it, and the way from its translation to what is printed."""

    source: str  # as it was given
    text: str  # as the model reads it
    items: tuple[str, ...]
    capitals: bool
    begins: bool = False  # with a capital, as a sentence does

    @property
    def is_word(self) -> bool:
        """Return whether it is one word with a capital, which may be a name or the first word."""
        return self.begins and self.text.isalpha()

    def in_small_letters(self) -> "Protected":
        return replace(self, text=self.text.lower())

    def kept(self, translation: str) -> bool:
        """Return whether a translation of `text` has every item once."""
        found = sorted(MASK.findall(translation))
        return found == [str(number) for number in range(1, len(self.items) + 1)]

    def has_items(self, translation: str) -> bool:
        """Return whether a translation of `source` has every item as often as `items`."""
        counts = Counter(self.items)
        return all(translation.count(item) >= count for item, count in counts.items())

    def around_items(self) -> list["Protected"]:
        """Return the text before the first item, between each two, and after the last."""
        return [protect(text) for text in ITEM.split(self.source)]

    def restore(self, translation: str) -> str:
        """Return the translation with its items and capitals."""
        text = translation.upper() if self.capitals else translation
        if self.begins and (first := FIRST_WORD.match(text)):
            at = first.start(1)
            text = text[:at] + text[at].upper() + text[at + 1 :]
        return SPACED.sub(self._item, text) if self.items else text

    def restore_pieces(self, pieces: Iterable[str]) -> Iterator[str]:
        """Restore a translation that comes piece by piece; only its first word gets a capital."""
        one = self
        for piece in pieces:
            yield one.restore(piece)
            if any(map(str.isalnum, piece)):
                one = replace(self, begins=False)

    def _item(self, mask: re.Match[str]) -> str:
        """Return the item of a mask; a tag without the spaces that were put beside its mask."""
        before, number, after = mask.groups()
        item = self.items[int(number) - 1]
        opens, closes = _glued(item, self.source)
        return ("" if closes else before) + item + ("" if opens else after)

    def without_masks(self) -> "Protected":
        """Return the same sentence with its items in place, for a model that lost one."""
        return Protected(self.source, self.source, (), capitals=False)


def protect(sentence: str) -> Protected:
    """Put masks in the place of items, and small letters in the place of capitals."""
    items = tuple(match[0] for match in ITEM.finditer(sentence))
    if len(items) > MAX_ITEMS:
        items = ()
    text = sentence
    if items:
        numbers = iter(range(1, len(items) + 1))
        text = ITEM.sub(lambda item: _mask(item[0], next(numbers), sentence), sentence)
    capitals = text.isupper() and sum(map(str.isalpha, text)) >= MIN_CAPITALS
    text = _in_small_letters(text) if capitals else text
    first = FIRST_WORD.match(text)
    return Protected(sentence, text, items, capitals, first is not None and first[1].istitle())


def _mask(item: str, number: int, sentence: str) -> str:
    """Return the mask of an item, apart from the word that a tag is written at."""
    opens, closes = _glued(item, sentence)
    return f"{' ' * closes}{{{number}}}{' ' * opens}"


def _glued(item: str, sentence: str) -> tuple[bool, bool]:
    """Return whether an item is a tag right before a word, and whether it is one right after it."""
    if not item.startswith("<"):
        return False, False
    before, after = sentence.split(item, 1)
    closes = item.startswith("</")
    return not closes and after[:1].isalnum(), closes and before[-1:].isalnum()


def _in_small_letters(text: str) -> str:
    """Return a text in capitals as a sentence: a capital first, small letters, the pronoun I."""
    small = PRONOUN.sub("I", text.lower())
    first = next(i for i, character in enumerate(small) if character.isalpha())
    return small[:first] + small[first].upper() + small[first + 1 :]
