"""Word classes, and the closed ones: pronouns, determiners, tenses, negations.

An entry holds both languages. Nouns, verbs, adjectives and prepositions are in `lexicon.py`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from glassformer.data.grammar.inflection import (
    Conjugation,
    Genders,
    Persons,
    conjugation,
    same,
)


class Agreement(NamedTuple):
    """Person, number and gender that a verb or an adjective takes from a noun."""

    person: int = 2  # of five, see inflection
    plural: bool = False
    feminine: bool = False

    @property
    def form(self) -> int:
        """The index of an adjective's four forms."""
        return 2 * self.plural + self.feminine


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    rank: int
    kind: str
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    feminine: bool


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    rank: int
    english: str
    french: Genders
    before_vowel: str  # the masculine singular in front of a noun: un vieil homme
    precedes: bool  # in French: une petite maison, une maison rouge
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    english: str
    french: str
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    rank: int
    aspect: str  # activity, event, perception, state or being: decides the tenses
    english: dict[str, Persons]
    particle: str  # look for, wake up
    french: Conjugation
    reflexive: bool = False
    subjects: tuple[Noun, ...] = ()
    objects: tuple[Noun, ...] = ()
    recipients: tuple[Noun, ...] = ()
    prepositions: tuple[Preposition, ...] = ()
    needs_place: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Personal:
    """A personal pronoun in all its cases."""

    english: tuple[str, str]  # subject, object
    subject: str
    direct: str
    indirect: str
    strong: str  # after a preposition
    agreement: Agreement


# "I", "you", "we" and "they" are masculine in French: English has no gender there.
I = Personal(("I", "me"), "je", "me", "me", "moi", Agreement(0))  # noqa: E741
YOU = Personal(("you", "you"), "tu", "te", "te", "toi", Agreement(1))
HE = Personal(("he", "him"), "il", "le", "lui", "lui", Agreement(2))
SHE = Personal(("she", "her"), "elle", "la", "lui", "elle", Agreement(2, feminine=True))
WE = Personal(("we", "us"), "nous", "nous", "nous", "nous", Agreement(3, plural=True))
THEY = Personal(("they", "them"), "ils", "les", "leur", "eux", Agreement(4, plural=True))
REFLEXIVE: Persons = ("me", "te", "se", "nous", "se")


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    english: tuple[str, str]  # singular, plural
    french: Genders
    negated: "Determiner | None" = None  # replaces it on the object of a negated verb


THE = Determiner(("the", "the"), ("le", "la", "les", "les"))
GENERIC = Determiner(("", ""), ("le", "la", "les", "les"))  # I love cats: j'aime les chats
NOT_A = Determiner(("a", "any"), ("de", "de", "de", "de"))
NOT_ANY = Determiner(("any", "any"), ("de", "de", "de", "de"))
A = Determiner(("a", "some"), ("un", "une", "des", "des"), NOT_A)
SOME = Determiner(("some", "some"), ("de le", "de la", "des", "des"), NOT_ANY)  # uncounted: bread
THIS = Determiner(("this", "these"), ("ce", "cette", "ces", "ces"))
WHICH = Determiner(("which", "which"), ("quel", "quelle", "quels", "quelles"))
MANY = Determiner(("", "many"), ("", "", "beaucoup de", "beaucoup de"))
POSSESSIVES = tuple(
    Determiner((english, english), (masculine, feminine, plural, plural))
    for english, masculine, feminine, plural in (
        ("my", "mon", "ma", "mes"),
        ("your", "ton", "ta", "tes"),
        ("his", "son", "sa", "ses"),
        ("her", "son", "sa", "ses"),
        ("our", "notre", "notre", "nos"),
        ("their", "leur", "leur", "leurs"),
    )
)
NUMBERS = tuple(
    Determiner(("", english), ("", "", french, french))
    for english, french in (
        ("two", "deux"),
        ("three", "trois"),
        ("four", "quatre"),
        ("five", "cinq"),
        ("six", "six"),
        ("ten", "dix"),
    )
)


@dataclass(frozen=True, slots=True, eq=False)
class Tense:
    """A tense in both languages.

    English: the form of the verb, the auxiliary before it if any, and the form of "do" where
    negation and questions need one. French: the tense of a simple verb, "perfect", or a modal verb
    before the infinitive.
    """

    form: str
    auxiliary: Persons | None
    do: Persons
    french: str
    modal: Conjugation | None = None


IS: Persons = ("am", "are", "is", "are", "are")
WAS: Persons = ("was", "were", "was", "were", "were")
DO: Persons = ("do", "do", "does", "do", "do")
DID = same("did")

PRESENT = Tense("present", None, DO, "present")
PROGRESSIVE = Tense("ing", IS, DO, "present")
PAST = Tense("past", None, DID, "perfect")
WAS_DOING = Tense("ing", WAS, DID, "imperfect")
USED_TO = Tense("base", same("used to"), DID, "imperfect")
FUTURE = Tense("base", same("will"), DO, "future")
CAN = Tense("base", same("can"), DO, "modal", conjugation("pouvoir"))
MUST = Tense("base", same("must"), DO, "modal", conjugation("devoir"))


@dataclass(frozen=True, slots=True, eq=False)
class Polarity:
    """Affirmative, or a negation: the second word beside "ne"."""

    english: str = ""
    french: str = ""


YES = Polarity()
NOT = Polarity("not", "pas")
NEVER = Polarity("never", "jamais")
NO_LONGER = Polarity("no longer", "plus")


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb or an expression of time, and the tenses that it goes with.

    Words of an expression that translate each other have the same label.
    """

    english: tuple[tuple[str, str], ...]  # word, label
    french: tuple[tuple[str, str], ...]
    tenses: tuple[Tense, ...]


def _labelled(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((word.split(":")[0], word.partition(":")[2]) for word in text.split())


def _adverb(english: str, french: str, *tenses: Tense) -> Adverb:
    return Adverb(_labelled(english), _labelled(french), tenses)


NO_ADVERB = _adverb("", "")
FREQUENCIES = (
    _adverb("often", "souvent", PRESENT, PAST),
    _adverb("sometimes", "parfois", PRESENT),
    _adverb("always", "toujours", PRESENT, FUTURE),
    _adverb("already", "déjà", PAST),
)
TIMES = (
    _adverb("yesterday", "hier", PAST, WAS_DOING),
    _adverb("this:a morning:b", "ce:a matin:b", PAST, WAS_DOING),
    _adverb("last:a week:b", "la:a semaine:b dernière:a", PAST),
    _adverb("now", "maintenant", PROGRESSIVE),
    _adverb("every:a day:b", "chaque:a jour:b", PRESENT, USED_TO),
    _adverb("tomorrow", "demain", FUTURE, MUST),
    _adverb("this:a evening:b", "ce:a soir:b", FUTURE),
    _adverb("next:a week:b", "la:a semaine:b prochaine:a", FUTURE),
)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    english: str
    french: str


YES_NO = Question("", "")  # and for questions that open with a noun phrase: which book …
WHO = Question("who", "qui")
WHAT = Question("what", "que")
WHERE = Question("where", "où")
WHEN = Question("when", "quand")
WHY = Question("why", "pourquoi")


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A conjunction of two clauses; one that `leads` begins the sentence."""

    english: str
    french: str
    leads: bool = False


AND = Link("and", "et")
BUT = Link("but", "mais")
BECAUSE = Link("because", "parce que")
WHEN_CLAUSE = Link("when", "quand", leads=True)
IF = Link("if", "si", leads=True)
