"""Sentence splitting by punctuation, with the layout of the text kept for the join.

    segments = split_text(text)
    segments.join(translate(segments.sentences))

A doubtful boundary is not cut: two sentences together translate better than two halves of one.
Every pattern reads a character a bounded number of times, so that time grows linearly.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from glassformer.errors import InputError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Emoji and other pictographs, with the joiners and selectors that combine them.
EMOJI = "\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff"
# A mark, closing quotes and emoji, white space, then what can begin a sentence. Chinese and
# Japanese marks need no space. The lookbehind lets a run of marks be tried once only.
END = re.compile(
    rf"""
    (?<![.!?…。！？])
    (?P<end>
        (?P<mark>[.!?…]++) (?:["'”’»)\]]|\s»)*+ (?=\s) (?:\s*+[{EMOJI}]++)*+
      | [。！？]++ ["'”’」』)]*+
    )
    \s*+
    (?= (?:[–—-]\s?)? ["'“‘«(\[¿¡「『]*+ \s? (?P<next>\w) )
    """,
    re.VERBOSE,
)
# A full stop after one of these does not end a sentence,
NEVER = _words(
    """mr mrs ms messrs dr prof st mt gen col sgt capt lt cpl maj rev hon gov sen rep pres mme mmes
    mlle mlles mgr MM sra adm pfc pr v vs cf e.g i.e a.k.a p.ex ex c.-à-d env av bd approx"""
)
# nor after one of these when a number follows,
BEFORE_NUMBERS = _words(
    """no nos nr fig figs vol ch chap sec sect art p pp par eq al ca tel tél ext jan feb mar apr jun
    jul aug sep sept oct nov dec janv févr avr juil déc"""
)
# nor after initials: J. Smith, U.S. Army, av. J.-C.
INITIALS = re.compile(r"(?:[^\W\d_][.-]{1,2})*[^\W\d_]")
LONGEST = 16  # characters of the longest abbreviation, with room for an opening quote

# What stands before the text of a line: indentation, quote marks, a heading mark, a list marker.
LINE_START = re.compile(
    r"\s*+ (?:>\s*+)*+ (?: (?:\#{1,6} | [-*+•‣◦▪·–—] | \d{1,3}[.)] | [^\W\d_]\) ) \s++ )?+",
    re.VERBOSE,
)
LINE_BREAK = re.compile(r"(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])\s*+")
WRAP_COLUMNS = 40  # a shorter line is not wrapped: it ends where its author ended it


@dataclass(frozen=True)
class Segments:
    """The sentences of a text and what stands between them.

    `gaps` has one more item than `sentences`: the text is gap, sentence, gap, …, sentence, gap.
    Gaps hold white space, list markers, and lines without a word: rules, numbers, addresses.
    A sentence of a wrapped paragraph contains line breaks.
    """

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    def join(self, translations: Sequence[str]) -> str:
        """Return the text with its sentences replaced, layout unchanged."""
        if len(translations) != len(self.sentences):
            raise InputError(
                f"{len(translations)} translations were given for {len(self.sentences)} sentences.",
                "Each sentence of the text is replaced by its own translation.",
                "Give as many translations as sentences, in their order.",
            )
        parts = [self.gaps[0]]
        for sentence, text, gap in zip(self.sentences, translations, self.gaps[1:], strict=True):
            parts += [wrap_like(sentence, text), gap]
        return "".join(parts)

    def leave(self, stays: Callable[[str], bool]) -> "Segments":
        """Return the segments without the sentences for which `stays` is true; gaps hold them."""
        found: list[str] = []
        gaps = [[self.gaps[0]]]
        for sentence, gap in zip(self.sentences, self.gaps[1:], strict=True):
            if stays(sentence):
                gaps[-1] += [sentence, gap]
            else:
                found.append(sentence)
                gaps.append([gap])
        return Segments(tuple(found), tuple(map("".join, gaps)))


def split_text(text: str) -> Segments:
    """Split `text` into sentences; `join` of the unchanged sentences gives `text` back."""
    found: list[str] = []
    gaps: list[str] = []
    done = 0
    for start, end in _blocks(text):
        for first, last in _sentence_spans(text, start, end):
            sentence = text[first:last].strip()
            if not _is_translatable(sentence):
                continue
            first = text.index(sentence, first)
            found.append(sentence)
            gaps.append(text[done:first])
            done = first + len(sentence)
    return Segments(tuple(found), (*gaps, text[done:]))


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` without the white space between them; at least one."""
    segments = split_text(text)
    pairs = zip(segments.gaps, segments.sentences, strict=False)
    found = [(gap + sentence).strip() for gap, sentence in pairs]
    rest = segments.gaps[-1].strip()
    return [*found, rest] if rest or not found else found


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each line after its marker, lines of a wrapped paragraph as one span."""
    block: tuple[int, int] | None = None
    before = ""
    position = 0
    for line in text.splitlines(keepends=True):
        start_of_line = LINE_START.match(line)
        assert start_of_line is not None  # every part of the pattern is optional
        has_marker = bool(start_of_line[0].strip())
        end = position + len(line)
        if block and not has_marker and _continues(before, line):
            block = (block[0], end)
        else:
            if block:
                yield block
            block = (position + start_of_line.end(), end)
        before, position = line.strip(), end
    if block:
        yield block


def _continues(before: str, line: str) -> bool:
    """Return whether `line` continues the sentence of the line `before` it, which was wrapped."""
    if len(before) < WRAP_COLUMNS or before[-1] in ".!?…:;":
        return False
    start = line.lstrip()[:1]
    return start.islower() or (before[-1] == "," and start.isalnum())


def _sentence_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in END.finditer(text, start, end):
        before = text[max(start, match.start() - LONGEST) : match.start()]
        if _is_over(before, match["mark"], match["next"]):
            yield start, match.end("end")
            start = match.end()
    yield start, end


def _is_over(before: str, mark: str | None, follows: str) -> bool:
    """Return whether a sentence ends at `mark`, by the text before and the letter after it."""
    if follows.islower():  # “Stop!” he said. Well… perhaps.
        return False
    if mark != ".":
        return True
    words = before.split()
    word = words[-1].lstrip("\"'“‘«([") if words else ""
    word = word.replace("’", "'").rpartition("'")[2]  # l'U.S. Air Force
    if words == [word] and word.isdecimal():  # 1. The first item of a list.
        return False
    if word.lower() in BEFORE_NUMBERS:
        return not follows.isdecimal()
    initials = INITIALS.fullmatch(word) and word.isupper() and word != "I"
    return word.lower() not in NEVER and word not in NEVER and not initials


def _is_translatable(sentence: str) -> bool:
    """Return whether there is a word to translate besides numbers, URLs and e-mail addresses."""
    if not any(map(str.isalpha, sentence)):
        return False
    is_one_word = len(sentence.split(maxsplit=1)) == 1
    is_address = "://" in sentence or sentence.startswith("www.") or "@" in sentence[1:-1]
    return not (is_one_word and is_address)


def is_wrapped(sentence: str) -> bool:
    """Return whether a sentence goes over several lines."""
    return LINE_BREAK.search(sentence) is not None


def wrap_like(source: str, text: str) -> str:
    """Break `text` into lines at the same shares of its length as `source`."""
    if text == source:
        return text
    parts: list[str] = []
    start = 0
    for match in LINE_BREAK.finditer(source):
        share = match.start() / len(source)
        space = text.find(" ", max(start, round(share * len(text))))
        if space < 0:
            break
        parts += [text[start:space], match[0]]
        start = space + 1
    return "".join([*parts, text[start:]])
