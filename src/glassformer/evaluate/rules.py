"""Rules of the behaviour suite: what a program can check in a translation without a reference.

A rule takes a case and an output and returns why the output breaks it, or None. Rules accept every
good translation they can foresee, so that a failure points at an error.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from glassformer.data.sentences import EMOJI, LINE_START, split_text


@dataclass(frozen=True)
class Case:
    """One text to translate, with what its translation must and must not contain.

    An item of `expect` or `avoid` holds alternatives, separated by `|`. A space in an alternative
    matches spaces, hyphens or nothing, and `*` any letters: `mang*` has every ending.
    """

    kind: str
    source: str
    references: tuple[str, ...]  # translations that a speaker accepts; the rules must accept them
    rules: tuple[str, ...]
    target: str = "fr"
    expect: tuple[str, ...] = ()  # one alternative of each item
    avoid: tuple[str, ...] = ()  # none of the alternatives
    keep: tuple[str, ...] = ()  # to the letter


Rule = Callable[[Case, str], str | None]

QUOTES = '"“”„«»'
CLOSING = " \u00a0\u202f\"'“”‘’«»)]*_`"  # may follow the final punctuation
WORD = re.compile(r"\w+")
NUMBER_IN = {  # how a language writes numbers; versions and the like first, which stay as they are
    "en": re.compile(r"\d+(?:\.\d+){2,}|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"),
    "fr": re.compile(r"\d+(?:\.\d+){2,}|\d{1,3}(?: \d{3})+(?:,\d+)?|\d+(?:[.,]\d+)?"),
}
NUMBER_WORDS = {
    "fr": "zéro|une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|"
    "quinze|seize|dix sept|dix huit|dix neuf|vingt",
    "en": "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    "fifteen|sixteen|seventeen|eighteen|nineteen|twenty",
}
CURRENCIES = {
    "$": {"fr": "$|dollar*|usd", "en": "$|dollar*|usd"},
    "€": {"fr": "€|euro*|eur", "en": "€|euro*|eur"},
    "£": {"fr": "£|livre*|gbp", "en": "£|pound*|gbp"},
}
URL = re.compile(r"(?:https?://|www\.)[^\s<>\"”»]*[^\s<>\"”».,;:!?)]")
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
PLACEHOLDER = re.compile(r"\{\{?\w*\}?\}|%\(\w+\)[sd]|%\d?[sd]|</?\w+/?>|\$\{?[A-Za-z_]\w*\}?")
PICTOGRAPH = re.compile(f"[{EMOJI}]")
INVISIBLE = re.compile("[\ufe0e\ufe0f\u200d]")  # how an emoji is drawn, not which
UNKNOWN = ("⁇", "\N{REPLACEMENT CHARACTER}", "▁", "<unk>", "</s>", "<s>", "<pad>")
NEGATIONS = {
    "fr": "ne|n'|pas|jamais|rien|aucun*|ni|nul|nulle*|sans|non|guère|personne|interdit*|défense|"
    "défendu*|impossible*|inutile*|ignor*",
    "en": "not|*n't|cannot|never|no|nothing|nobody|none|neither|nor|without|no one|nowhere|"
    "impossible|forbidden|hardly",
}
# Frequent words of one language that are rare or unknown in the other.
FRENCH = """
le la les l un une des du de au aux ce cet cette ces c ça cela et ou où mais donc ni que qu qui quoi
quel quelle quels quelles dont je j tu il elle nous vous ils elles lui leur leurs moi toi se n ne
pas jamais rien plus mon ma mes ta tes sa ses notre votre nos vos est es suis sommes êtes sont était
étaient étais été être ai avons avez ont avait avoir fait faire y en à dans par pour avec sans chez
sous vers entre depuis pendant avant après très trop bien aussi comme quand pourquoi combien si oui
non bonjour merci peut peux pouvez dois doit veux veut voudrais va vais vas allez sera serait soit
"""
ENGLISH = """
the of and is are was were be been being am has have had do does did doing this that these those it
its i you he she we they him them his her their our your my what which who whom whose where when why
how to in at by for with from about into over under not no isn aren wasn doesn didn can could would
should will may might must there here if because than then very too just please yes let get got ll
ve re hello thanks
"""
FUNCTION_WORDS = {"fr": frozenset(FRENCH.split()), "en": frozenset(ENGLISH.split())}
# Pairs of words that no sentence has side by side. (?<!-) leaves out inversions: puis-je, a-t-il.
_FRENCH_DETERMINERS = "des|du|au|aux|cet|cette|ces|mon|ma|mes|ta|tes|ses|nos|vos"
_ENGLISH_DETERMINERS = "the|my|your|our|their|an"
IMPOSSIBLE = {
    "fr": re.compile(
        rf"(?<![\w'-])(?:(?:{_FRENCH_DETERMINERS}) "
        rf"(?:{_FRENCH_DETERMINERS}|le|la|les|un|une|et|est|sont|dans|je|tu|il|ils|ne|pas|que|qui)"
        rf"|(?:je|il|ils) (?:{_FRENCH_DETERMINERS}|une|et|dans)(?= \w)"
        rf"|(?:{_FRENCH_DETERMINERS}|le|les|à|dans|et|ou|mais|je|ne|de)(?= ?[.!?](?!\.)| ?$)"
        r")(?![\w'-])"
    ),
    "en": re.compile(
        rf"(?<![\w'-])(?:(?:{_ENGLISH_DETERMINERS}) "
        rf"(?:{_ENGLISH_DETERMINERS}|is|are|was|were|of|in|to|where|what|he|she|we|they|you)"
        rf"|(?:{_ENGLISH_DETERMINERS}|and|or)(?= ?[.!?](?!\.)| ?$)"
        r")(?![\w'-])"
    ),
}
MIN_RATIO, MAX_RATIO, SLACK = 0.5, 2.0, 12  # of characters; SLACK characters more or fewer
MIN_CAPITALS = 0.8  # share of the letters, so that "iPhone" or "12 h" may stay
MIN_KEPT_WORDS = 0.6  # of a text that is in the target language already
UNJUDGED_WORDS = 8  # so many words without a function word may still be a list


def fold(text: str) -> str:
    """Return `text` in lower case with one form of apostrophes, spaces, œ and accents."""
    text = unicodedata.normalize("NFC", text).lower()
    text = re.sub(r"[’‘ʼ´]", "'", text).replace("œ", "oe").replace("æ", "ae")
    return re.sub(r"[^\S\n]", " ", text)


def words(text: str) -> list[str]:
    return WORD.findall(fold(text))


def contains(text: str, alternatives: str) -> bool:
    """Return whether `text` has one of `alternatives`; accents count unless it is in capitals."""
    folded, wanted = fold(text), fold(alternatives)
    if text.isupper():
        folded, wanted = _without_accents(folded), _without_accents(wanted)
    return any(re.search(_pattern(one), folded) for one in wanted.split("|"))


def not_a_copy(case: Case, output: str) -> str | None:
    source, actual = words(case.source), words(output)
    return "copy of the source" if actual and actual == source else None


def not_empty(case: Case, output: str) -> str | None:
    return None if output.strip() else "empty"


def length(case: Case, output: str) -> str | None:
    source, actual = len(case.source), len(output)
    if source * MIN_RATIO - SLACK <= actual <= source * MAX_RATIO + SLACK:
        return None
    return f"{actual} characters for {source}"


def ends(case: Case, output: str) -> str | None:
    """Compare the last mark: . ? ! … :. A source without one allows any."""
    wanted, actual = _last_mark(case.source), _last_mark(output)
    return f"ends with {actual or 'no mark'}, not {wanted}" if wanted and actual != wanted else None


def starts(case: Case, output: str) -> str | None:
    """Demand a capital where a sentence of the source has one; other characters may come first."""
    first, actual = case.source[:1], output.strip().lstrip(QUOTES + " \u00a0\u202f")[:1]
    is_sentence = _last_mark(case.source) or len(words(case.source)) > 2
    if first.isupper() and is_sentence and actual.islower():
        return f"starts with {actual!r}, not with a capital"
    return None


def language(case: Case, output: str) -> str | None:
    """Count function words of both languages outside the tokens that are copied."""
    actual = words(_without_copied(case, output))
    counts = {name: sum(one in known for one in actual) for name, known in FUNCTION_WORDS.items()}
    other = "en" if case.target == "fr" else "fr"
    target_count, other_count = counts[case.target], counts[other]
    if other_count > target_count or (not target_count and len(actual) > UNJUDGED_WORDS):
        return f"{target_count} function words of {case.target}, {other_count} of {other}"
    return None


def word_order(case: Case, output: str) -> str | None:
    """Look for determiners and conjunctions where no sentence has them, such as at its end."""
    found = IMPOSSIBLE[case.target].search(_without_copied(case, fold(output)))
    return f"has {found[0]!r}" if found else None


def repetition(case: Case, output: str) -> str | None:
    """Find words, phrases or letters that repeat in a row more often than in the source."""
    source, actual = words(case.source), words(re.sub(r"(?<=\d) (?=\d)", "", fold(output)))
    for n in range(1, 5):
        allowed = max(2 if n == 1 else 1, _repeats(source, n)[0])
        count, phrase = _repeats(actual, n)
        if count > allowed:
            return f"{phrase!r} {count} times in a row"
    count, mark = _repeats(output.split(), 1)
    if count > max(2, _repeats(case.source.split(), 1)[0]):
        return f"{mark!r} {count} times in a row"
    loop = re.search(r"([^\W\d_]{1,6}?)\1{4,}", fold(output))
    if loop and loop[0] not in fold(case.source):
        return f"{loop[0][:20]!r} repeats"
    return None


def clean(case: Case, output: str) -> str | None:
    found = [mark for mark in UNKNOWN if mark in output and mark not in case.source]
    return f"contains {' '.join(found)}" if found else None


def expect(case: Case, output: str) -> str | None:
    missing = [item for item in case.expect if not contains(output, item)]
    return f"lacks {'; '.join(missing)}" if missing else None


def avoid(case: Case, output: str) -> str | None:
    found = [item for item in case.avoid if contains(output, item)]
    return f"has {'; '.join(found)}" if found else None


def keep(case: Case, output: str) -> str | None:
    actual = unicodedata.normalize("NFC", output).replace("’", "'")
    missing = [item for item in case.keep if item not in actual]
    return f"lost {' '.join(missing)}" if missing else None


def numbers(case: Case, output: str) -> str | None:
    """Demand every number of the source, in the notation of either language."""
    other = "en" if case.target == "fr" else "fr"
    source = fold(_without_copied(case, case.source))
    actual = fold(output)
    found = [match[0] for match in NUMBER_IN[other].finditer(source)]
    missing = [one for one in found if not re.search(_number(one, other, case.target), actual)]
    return f"lost {' '.join(missing)}" if missing else None


def currency(case: Case, output: str) -> str | None:
    names = [sign for sign in CURRENCIES if sign in case.source]
    missing = [sign for sign in names if not contains(output, CURRENCIES[sign][case.target])]
    return f"lost {' '.join(missing)}" if missing else None


def urls(case: Case, output: str) -> str | None:
    return _same(URL.findall(case.source), URL.findall(output))


def emails(case: Case, output: str) -> str | None:
    return _same(EMAIL.findall(case.source), EMAIL.findall(output))


def emoji(case: Case, output: str) -> str | None:
    """Demand the same emoji, at the end if they end the source."""
    source, actual = (INVISIBLE.sub("", text).strip() for text in (case.source, output))
    if PICTOGRAPH.fullmatch(source[-1:]) and source[-1:] in actual and source[-1:] != actual[-1:]:
        return f"{source[-1:]} is not at the end"
    return _same(PICTOGRAPH.findall(source), PICTOGRAPH.findall(actual))


def placeholders(case: Case, output: str) -> str | None:
    return _same(PLACEHOLDER.findall(case.source), PLACEHOLDER.findall(output))


def quotes(case: Case, output: str) -> str | None:
    """Demand as many double quotation marks, of any style."""
    wanted, actual = (sum(text.count(mark) for mark in QUOTES) for text in (case.source, output))
    return f"{actual} quotation marks for {wanted}" if actual != wanted else None


def negation(case: Case, output: str) -> str | None:
    return None if contains(output, NEGATIONS[case.target]) else "no negation"


def affirmative(case: Case, output: str) -> str | None:
    return "negated" if contains(output, NEGATIONS[case.target]) else None


def capitals(case: Case, output: str) -> str | None:
    letters = [one for one in _without_copied(case, output) if one.isalpha()]
    upper = sum(one.isupper() for one in letters)
    if upper >= MIN_CAPITALS * len(letters):
        return None
    return f"{upper} of {len(letters)} letters are capitals"


def lines(case: Case, output: str) -> str | None:
    """Demand the same lines: how many, which are blank, and which begin with a list marker."""
    wanted, actual = (list(map(_layout, text.split("\n"))) for text in (case.source, output))
    if len(wanted) != len(actual):
        return f"{len(actual)} lines for {len(wanted)}"
    return None if wanted == actual else "blank lines or list markers changed"


def sentence_count(case: Case, output: str) -> str | None:
    """Demand as many sentences, less one in four that may be joined to another."""
    wanted, actual = (len(split_text(text).sentences) for text in (case.source, output))
    return f"{actual} sentences for {wanted}" if actual < wanted - wanted // 4 else None


def unchanged(case: Case, output: str) -> str | None:
    """Demand most words of a source that is in the target language already."""
    source = Counter(words(case.source))
    kept = sum((source & Counter(words(output))).values())
    if kept >= MIN_KEPT_WORDS * source.total():
        return None
    return f"{kept} of {source.total()} words kept"


def blank(case: Case, output: str) -> str | None:
    return f"{output[:40]!r} for an empty source" if output.strip() else None


def no_letters(case: Case, output: str) -> str | None:
    letters = "".join(one for one in output if one.isalpha())
    return f"letters {letters[:20]!r} for a source without any" if letters else None


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        *(not_empty, not_a_copy, length, starts, ends, language, word_order, repetition, clean),
        *(expect, avoid, keep, numbers, currency, urls, emails, emoji, placeholders, quotes),
        *(negation, affirmative, capitals, lines, sentence_count, unchanged, blank, no_letters),
    )
}
# Rules of every kind that does not leave them out.
USUAL = (
    *("not_empty", "not_a_copy", "length", "starts", "ends", "language", "word_order"),
    *("repetition", "clean", "expect", "avoid", "keep"),
)


def _pattern(alternative: str) -> str:
    """Return the regular expression of one alternative in folded text."""
    parts = [re.escape(one).replace(r"\*", r"\w*") for one in alternative.split()]
    before = r"(?<!\w)" if alternative[:1].isalnum() else ""
    after = r"(?!\w)" if alternative[-1:].isalnum() else ""
    return before + r"[\s-]*".join(parts) + after


def _without_accents(text: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    return "".join(one for one in parts if not unicodedata.combining(one))


def _without_copied(case: Case, text: str) -> str:
    """Remove what is copied to the letter: addresses, placeholders and the items of `keep`."""
    for item in case.keep:
        text = text.replace(item, " ")
    for pattern in (URL, EMAIL, PLACEHOLDER):
        text = pattern.sub(" ", text)
    return text


def _last_mark(text: str) -> str:
    text = PICTOGRAPH.sub("", text).strip().rstrip(CLOSING)
    if text.endswith(("...", "…")):
        return "…"
    return text[-1:] if text[-1:] in (".", "?", "!", ":") else ""


def _repeats(tokens: list[str], n: int) -> tuple[int, str]:
    """Return how often a phrase of `n` words follows itself at most, and the phrase."""
    best, phrase = 1, ""
    run = 0  # words in a row that equal the word n before them
    for i in range(n, len(tokens)):
        run = run + 1 if tokens[i] == tokens[i - n] else 0
        if run // n + 1 > best:
            best, phrase = run // n + 1, " ".join(tokens[i - n + 1 : i + 1])
    return best, phrase


def _number(number: str, source: str, target: str) -> str:
    """Return a pattern of the ways in which a number may be written."""
    thousands, point = (",", ".") if source == "en" else (" ", ",")
    if number.count(".") > 1:
        return rf"(?<!\d){re.escape(number)}(?!\d)"
    whole, _, decimals = number.replace(thousands, "").partition(point)
    if "." in whole:  # a decimal point in French text
        whole, _, decimals = whole.partition(".")
    groups: list[str] = []
    digits = whole
    while digits:
        groups.insert(0, digits[-3:])
        digits = digits[:-3]
    pattern = "[ ,.']?".join(groups) if len(whole) > 3 else whole
    if whole.startswith("0") and len(whole) == 2:  # 05/10 may become 5 octobre
        pattern = f"0?{whole[1]}"
    if decimals.strip("0"):
        mark = r"(?:[.,]| ?(?:€|\$|£|euros?|dollars?|pounds?|livres?)(?: et| and)? ?)"
        pattern += mark + decimals.rstrip("0") + "0*"
    elif decimals:
        pattern += "(?:[.,]0+)?"
    pattern = rf"(?<!\d)(?<!\d[.,]){pattern}(?!\d)(?![.,]\d)"
    names = NUMBER_WORDS[target].split("|")
    if not decimals and whole.isdecimal() and int(whole) < len(names):
        name = names[int(whole)].replace(" ", "[ -]")
        pattern += rf"|(?<!\w){name}(?!\w)"
    return pattern


def _same(wanted: list[str], actual: list[str]) -> str | None:
    """Compare what was found in source and output; the order may change."""
    missing, added = Counter(wanted) - Counter(actual), Counter(actual) - Counter(wanted)
    reasons = [f"lost {' '.join(missing.elements())}"] if missing else []
    reasons += [f"added {' '.join(added.elements())}"] if added else []
    return "; ".join(reasons) or None


def _layout(line: str) -> str:
    """Return the list marker of a line, "text" for one without, or nothing for a blank line."""
    start = LINE_START.match(line)
    marker = start[0].strip() if start else ""
    return marker or ("text" if line.strip() else "")
