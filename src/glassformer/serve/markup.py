"""HTML to texts and back: text is translated, tags and what is no language stay.

A run is the text between two tags that end a line of thought, such as `<p>`. Its inline tags are
first translated with it, as items that the translator copies. Where the answer has not the same
tags in the same order, the text between every two tags is translated by itself.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tags inside a sentence; every other one ends it.
INLINE = _words(
    """a abbr acronym b bdi bdo big cite del dfn em font i ins label mark q rp rt ruby s small span
    strike strong sub sup time tt u"""
)
# Elements whose content is no language.
OPAQUE = _words("code kbd math pre samp script style svg template textarea var xmp")
TAG_NAME = re.compile(r"</?([A-Za-z][A-Za-z0-9:-]*)")
SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)  # keeps every character's place
TAG = re.compile(r"</?[A-Za-z][^<>]*>")


class Token(NamedTuple):
    """A piece of HTML. Joined, the tokens of a text are the text."""

    text: str
    kind: str  # text, inline, or other: a tag, a comment, or an element that is not translated


def tokens(html: str) -> Iterator[Token]:
    """Split HTML in linear time. What is not closed is text to the end."""
    at = start = 0
    missing: set[str] = set()  # ends that the rest of the text has not
    small = html.translate(SMALL)
    while (begin := html.find("<", at)) >= 0:
        end, kind = _markup(small, begin, missing)
        if end < 0:
            at = begin + 1
            continue
        if begin > start:
            yield Token(html[start:begin], "text")
        yield Token(html[begin:end], kind)
        at = start = end
    if start < len(html):
        yield Token(html[start:], "text")


def _markup(html: str, begin: int, missing: set[str]) -> tuple[int, str]:
    """Return where the markup that begins here ends, and its kind; -1: it is none."""
    if html.startswith("<!--", begin):
        return _end(html, "-->", begin, missing), "other"
    name = TAG_NAME.match(html, begin)
    if name is None and not html.startswith(("<!", "<?"), begin):
        return -1, "text"
    end = _end(html, ">", begin, missing)
    called = name[1] if name else ""
    if end >= 0 and called in OPAQUE and html[begin + 1] != "/" and html[end - 2] != "/":
        closed = _end(html, f"</{called}", end, missing)
        end = _end(html, ">", closed, missing) if closed >= 0 else len(html)
        end = len(html) if end < 0 else end
        return end, "other"
    return end, "inline" if called in INLINE else "other"


def _end(html: str, mark: str, start: int, missing: set[str]) -> int:
    """Return the place behind the next `mark`, or -1; one that is missing is not sought again."""
    found = -1 if mark in missing else html.find(mark, start)
    if found < 0:
        missing.add(mark)
        return -1
    return found + len(mark)


@dataclass(frozen=True)
class Run:
    """Text with inline tags between two other tokens."""

    tokens: tuple[Token, ...]

    @property
    def tags(self) -> list[str]:
        return [token.text for token in self.tokens if token.kind == "inline"]

    @property
    def texts(self) -> list[str]:
        """The texts between the tags, without entities."""
        return [unescape(token.text) for token in self.tokens if token.kind == "text"]

    @property
    def whole(self) -> str | None:
        """The text with its tags; None where its characters could be taken for tags."""
        if any(set("<>") & set(text) for text in self.texts):
            return None
        return "".join(
            unescape(token.text) if token.kind == "text" else token.text for token in self.tokens
        )

    def from_whole(self, translation: str) -> str | None:
        """Return the HTML of a translation of `whole`; None if it has other tags."""
        if TAG.findall(translation) != self.tags:
            return None
        parts = TAG.split(translation)
        if any(set("<>") & set(part) for part in parts):
            return None
        return _woven(map(_escaped, parts), self.tags)

    def from_texts(self, translations: Sequence[str]) -> str:
        """Return the HTML with its texts replaced."""
        remaining = iter(translations)
        return "".join(
            _escaped(next(remaining)) if token.kind == "text" else token.text
            for token in self.tokens
        )


def _woven(texts: Iterator[str], tags: list[str]) -> str:
    return next(texts) + "".join(tag + text for tag, text in zip(tags, texts, strict=True))


def _escaped(text: str) -> str:
    return escape(text, quote=False)


class Document:
    """The runs of HTML, and everything between them."""

    def __init__(self, html: str) -> None:
        self.parts: list[Token | Run] = []
        open_run: list[Token] = []
        for token in tokens(html):
            if token.kind == "other":
                self._close(open_run)
                self.parts.append(token)
            else:
                open_run.append(token)
        self._close(open_run)

    def _close(self, open_run: list[Token]) -> None:
        has_words = any(c.isalpha() for token in open_run if token.kind == "text"
                        for c in unescape(token.text))  # fmt: skip
        self.parts += [Run(tuple(open_run))] if has_words else open_run
        open_run.clear()

    @property
    def runs(self) -> list[Run]:
        return [part for part in self.parts if isinstance(part, Run)]

    def join(self, runs: Sequence[str]) -> str:
        """Return the HTML with its runs replaced."""
        remaining = iter(runs)
        return "".join(
            next(remaining) if isinstance(part, Run) else part.text for part in self.parts
        )
