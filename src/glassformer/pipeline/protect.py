"""Protection of text that a model need not translate: capitals, and items copied to the letter.

An item is an address, a placeholder, a tag, code, an emoji or a word in another script. The model
reads `{1}`, `{2}`, … in their place, which it copies more surely than a long address.
"""

import re
from collections import Counter
from dataclasses import dataclass

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
        if not self.items:
            return text
        return MASK.sub(lambda mask: self.items[int(mask[1]) - 1], text)

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
        text = ITEM.sub(lambda _: f"{{{next(numbers)}}}", sentence)
    capitals = text.isupper() and sum(map(str.isalpha, text)) >= MIN_CAPITALS
    return Protected(sentence, _in_small_letters(text) if capitals else text, items, capitals)


def _in_small_letters(text: str) -> str:
    """Return a text in capitals as a sentence: a capital first, small letters, the pronoun I."""
    small = PRONOUN.sub("I", text.lower())
    first = next(i for i, character in enumerate(small) if character.isalpha())
    return small[:first] + small[first].upper() + small[first + 1 :]
