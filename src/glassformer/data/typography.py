"""Typography: one plain form of the text that a model reads, and typeset French output.

`normalize` returns the form that training text, input and references share:

    apostrophes and quotes   ' and "           ’ ‘ ‛ ʼ “ ” „ « » become these
    spaces                   one plain space   no-break, thin, tabs, line ends; none at the ends
    ellipsis                 ...               … becomes this
    hyphens                  -                 the hyphens U+2010 and U+2011; dashes – — stay
    invisible characters     removed           soft hyphen, zero-width space, word joiner, BOM
    French                   a space before ? ! ; : and %, after a word that is no code

Letters, digits, emoji, superscripts and other scripts are left as they are, but for canonical
composition (NFC). `typeset` is the inverse for French output: ’ « » … and no-break spaces.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

NO_BREAK, NARROW = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‛ʼ‚", "'")
    | dict.fromkeys("“”„‟", '"')
    | dict.fromkeys("‐‑", "-")
    | {"…": "...", "\u00ad": "", "\u200b": "", "\u2060": "", "\ufeff": ""}
)
_SPACES = re.compile(r"\s+")
_OPEN, _CLOSE = re.compile(r"«\s*"), re.compile(r"\s*»")

_MARKED_WORD = re.compile(r"[^\s?!;:%]+[?!;:%]\S*")
# Between a word and its mark; only closing quotes and brackets may follow the mark.
_BEFORE_MARK = re.compile(r"(?<=[\w)\]\"'%])(?=[?!;:]+(?:[\s\"')\]]|$))")
_BEFORE_PERCENT = re.compile(r"(?<=\d)(?=%(?!\w))")
_CODE = re.compile(r"://|[@&\\<>{}=_]|^[:;]|[?!]\w")  # in a word that is left as it is

_QUOTED = re.compile(r'(?<!\S)((?:[(\[]|\w\')?)"([^"\s](?:[^"]*[^"\s])?)"(?=[\s.,;:?!)\]]|$)')
_OPENING = re.compile(r"(?<!\S)(?:[(\[]|\w')?\"(?=\S)")
# A space before a letter: no rule spans it, so the text before it can be typeset by itself.
_STABLE = re.compile(r" (?=[^\W\d_])")
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])")
_THOUSANDS = re.compile(r"(?<![\d.,] )(?<!\S)\d{1,3}(?: \d{3})+(?!\S?\d)(?! \d)")


def normalize(text: str, language: str | None = None) -> str:
    """Return `text` in the plain form; `language` adds the spacing rules of that language."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.translate(_PLAIN))
        if "«" in text or "»" in text:
            text = _CLOSE.sub('"', _OPEN.sub('"', text))
    text = _SPACES.sub(" ", text).strip()
    return _space_french(text) if language == "fr" else text


def _space_french(text: str) -> str:
    """Add the space of French before ? ! ; : and %, except in words that look like code."""
    return _MARKED_WORD.sub(_space_word, text)


def _space_word(match: re.Match[str]) -> str:
    word = match[0]
    return word if _CODE.search(word) else _BEFORE_MARK.sub(" ", _BEFORE_PERCENT.sub(" ", word))


def typeset(text: str, language: str) -> str:
    """Return output of a model as it is printed in `language`; only French differs."""
    if language != "fr":
        return text
    text = _QUOTED.sub(rf"\1«{NO_BREAK}\2{NO_BREAK}»", text)
    words = [word if _CODE.search(word) else _APOSTROPHE.sub("’", word) for word in text.split(" ")]
    text = " ".join(words)
    text = re.sub(r"(?<=\S) (?=[?!;]+(?:[\s\"')\]]|$))", NARROW, text)
    text = re.sub(r"(?<=\S) (?=(?::|%)(?:[\s\"')\].,]|$))", NO_BREAK, text)
    text = _THOUSANDS.sub(lambda number: number[0].replace(" ", NARROW), text)
    return re.sub(r"(?<!\.)\.\.\.(?!\.)", "…", text)


def typeset_pieces(pieces: Iterable[str], language: str) -> Iterator[str]:
    """Typeset text that arrives in pieces; joined, the result is `typeset` of all of it.

    A piece is held back until what follows cannot change it: to the end of its word, and from an
    opening quote to the closing one.
    """
    if language != "fr":
        yield from pieces
        return
    text = ""
    for piece in pieces:
        text += piece
        if end := _stable_end(text):
            yield typeset(text[:end], language)
            text = text[end:]
    if text:
        yield typeset(text, language)


def _stable_end(text: str) -> int:
    """Return the length of the longest start of `text` that no later text can change; 0 if none."""
    *_, end = (0, *(match.start() for match in _STABLE.finditer(text)))
    quoted = _QUOTED.sub(lambda match: "x" * len(match[0]), text[:end])  # closed quotes are done
    opening = _OPENING.search(quoted)
    if opening is None:
        return end
    *_, end = (0, *(match.start() for match in _STABLE.finditer(text, 0, opening.start() + 1)))
    return end
