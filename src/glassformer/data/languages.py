"""Guess the language of a text: by its script, or by its most frequent words."""

import re
from collections import Counter
from collections.abc import Iterable

UNKNOWN = "und"  # ISO 639's code of a language that is not known
MIN_SHARE = 0.05  # of the words; function words are 20 to 40% of running text

NAMES = {
    "ar": "arabic", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "fi": "finnish", "fr": "french", "he": "hebrew", "hi": "hindi",
    "hu": "hungarian", "it": "italian", "ja": "japanese", "ko": "korean", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sv": "swedish", "th": "thai", "tr": "turkish", "uk": "ukrainian", "zh": "chinese",
}  # fmt: skip

# Of languages that share a script. Words that two of them have count for both.
FREQUENT = {
    "cs": "je se na že to jsem jako ale který jsou byl pro není také",
    "da": "og er det ikke til jeg på af der med han den for har som",
    "de": "der die und ist ein eine das nicht mit ich zu auf den dem sich",
    "en": "the of and is a in to that it was with on for are his",
    "es": "el la de que y los un una en es por con las su para",
    "fi": "ja on ei se että hän oli mutta kun niin olen ovat joka minä",
    "fr": "le la les de et des un une est dans qui que pour du il",
    "hu": "a az és hogy nem egy is volt csak meg van ez de ha",
    "it": "il di che e la un una è per non con del i gli sono",
    "nl": "de het een en van is dat op te niet met zijn in voor die",
    "no": "og er det ikke til jeg på av som med han en for har den",
    "pl": "i w na nie że się z jest do to jak po ale przez",
    "pt": "o a de que e um uma não em os do da para com se",
    "ro": "și în de la cu este nu pe un o care din să mai",
    "sv": "och är det inte att jag på av som med han en för har den",
    "tr": "ve bir bu da de için çok ne ben o gibi ile daha değil",
}
SCRIPTS = {  # first match decides: Japanese has Chinese characters, too
    "ja": "[\u3040-\u30ff]", "ko": "[\uac00-\ud7af]", "zh": "[\u4e00-\u9fff]",
    "uk": "[іїєґІЇЄҐ]", "ru": "[\u0400-\u04ff]", "el": "[\u0370-\u03ff]",
    "ar": "[\u0600-\u06ff]", "he": "[\u0590-\u05ff]", "hi": "[\u0900-\u097f]",
    "th": "[\u0e00-\u0e7f]",
}  # fmt: skip

_WORD = re.compile(r"\w+")
_WORDS = {language: frozenset(words.split()) for language, words in FREQUENT.items()}


def guess(texts: Iterable[str]) -> str:
    """Return the code of the language that most of the texts seem to be in, or `UNKNOWN`."""
    words = [word for text in texts for word in _WORD.findall(text.casefold())]
    if not words:
        return UNKNOWN
    for language, script in SCRIPTS.items():
        share = sum(bool(re.search(script, word)) for word in words) / len(words)
        if share > (0.1 if language in ("ja", "uk") else 0.5):  # these mix with another script
            return language
    counts = Counter(words)
    found = {
        language: sum(counts[word] for word in frequent) / len(words)
        for language, frequent in _WORDS.items()
    }
    best = max(found, key=found.__getitem__)
    return best if found[best] >= MIN_SHARE else UNKNOWN


def of_name(name: str) -> str | None:
    """Return the code of the language that a column or a file's suffix is called after."""
    word = name.strip().casefold()
    if word in NAMES:
        return word
    return next((code for code, language in NAMES.items() if language == word), None)
