"""A text cut into its sentences, by punctuation: enough for feeding a translator.

Where it is not sure it does not cut: two sentences at once are translated better than two halves
of one. Nothing is lost but the space between sentences.
"""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A mark with what closes behind it, then space, then what can begin a sentence. Marks of Chinese
# and Japanese need no space. A run of marks is tried once only, so that time grows with the text.
END = re.compile(
    r"""
    (?<![.!?…。！？])
    (?P<end>  (?P<mark>[.!?…]++) (?:["'”’»)\]]|\s»)*+ (?=\s)  |  [。！？]++ ["'”’」』)]*+  )
    \s*+
    (?= (?:[–—-]\s?)? ["'“‘«(\[¿¡「『]*+ \s? (?P<next>\w) )
    """,
    re.VERBOSE,
)
# A full stop does not end a sentence behind one of these,
NEVER = _words(
    """mr mrs ms messrs dr prof st mt gen col sgt capt lt cpl maj rev hon gov sen rep pres mme mmes
    mlle mlles mgr pr vs cf e.g i.e p.ex c.-à-d env av bd approx"""
)
# nor behind one of these with a number to follow,
BEFORE_NUMBERS = _words(
    """no nos nr fig figs vol ch sec art p pp par eq jan feb mar apr jun jul aug sep sept oct nov
    dec janv févr avr juil déc"""
)
# nor behind initials: J. Smith, U.S. Army, av. J.-C.
INITIALS = re.compile(r"(?:[^\W\d_][.-]{1,2})*[^\W\d_]")
LONGEST = 16  # characters that any of these have


def sentences(text: str) -> list[str]:
    """The sentences of `text`, each with its punctuation; at least one, be it empty."""
    found: list[str] = []
    start = 0
    for match in END.finditer(text):
        before = text[max(start, match.start() - LONGEST) : match.start()]
        if _is_over(before, match["mark"], match["next"]):
            found.append(text[start : match.end("end")].strip())
            start = match.end()
    return [*found, text[start:].strip()]


def _is_over(before: str, mark: str | None, follows: str) -> bool:
    """Whether a sentence is over at `mark`, with these words before it and this letter behind."""
    if follows.islower():  # “Stop!” he said. Well… perhaps.
        return False
    if mark != ".":
        return True
    words = before.split()
    word = words[-1].lstrip("\"'“‘«([") if words else ""
    if words == [word] and word.isdecimal():  # 1. The first of a list.
        return False
    if word.lower() in BEFORE_NUMBERS:
        return not follows.isdecimal()
    initials = INITIALS.fullmatch(word) and word.isupper() and word != "I"
    return word.lower() not in NEVER and not initials
