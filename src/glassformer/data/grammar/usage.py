"""Constraints of meaning: tenses, negations, determiners, and the arguments of verbs.

Options are drawn uniformly: an entry that is in a table twice is drawn twice as often.
"""

from collections.abc import Callable, Sequence

from glassformer.data.grammar.lexicon import ADJECTIVES, BE, NOUNS, PREPOSITIONS, VERBS, select
from glassformer.data.grammar.tree import PEOPLE
from glassformer.data.grammar.words import (
    AND,
    BECAUSE,
    BUT,
    CAN,
    FREQUENCIES,
    FUTURE,
    HE,
    IF,
    MANY,
    MUST,
    NEVER,
    NO_LONGER,
    NOT,
    NUMBERS,
    PAST,
    POSSESSIVES,
    PRESENT,
    PROGRESSIVE,
    SHE,
    SOME,
    THE,
    THEY,
    THIS,
    TIMES,
    USED_TO,
    WAS_DOING,
    WE,
    WHEN_CLAUSE,
    YES,
    YOU,
    A,
    Determiner,
    I,
    Noun,
    Polarity,
    Tense,
    Verb,
)

# Pronouns

PRONOUNS = (I, YOU, HE, SHE, WE, THEY)
ANAPHORS = {pronoun.agreement: pronoun for pronoun in PRONOUNS}  # the king … he
# Not "I see me", nor "we see me".
OTHERS = {
    I: (YOU, HE, SHE, THEY),
    WE: (YOU, HE, SHE, THEY),
    YOU: (I, HE, SHE, WE, THEY),
    **dict.fromkeys((HE, SHE, THEY), PRONOUNS),
}

# Tenses

TENSES = (
    *(PRESENT,) * 4,
    *(PROGRESSIVE,) * 3,
    *(PAST,) * 5,
    *(FUTURE,) * 3,
    *(WAS_DOING, USED_TO, CAN, MUST),
)
TENSES_OF_QUESTIONS = (PRESENT, PROGRESSIVE, PAST, PAST, FUTURE, CAN)
TENSES_OF_RELATIVES = (PRESENT, PROGRESSIVE, PAST, PAST, PAST, FUTURE)
LINKS = (
    *(
        (link, tense, tense)
        for link in (AND, BUT)
        for tense in (PRESENT, PROGRESSIVE, PAST, FUTURE)
    ),
    *((BECAUSE, PROGRESSIVE, PRESENT), (BECAUSE, PAST, PAST), (BECAUSE, FUTURE, PRESENT)),
    *((WHEN_CLAUSE, PAST, WAS_DOING),) * 3,
    *((IF, PRESENT, FUTURE),) * 3,
)

# Tense of "say" and "think", and of the clause that depends on it: sequence of tenses.
REPORTS = (*((PRESENT, tense) for tense in TENSES_OF_RELATIVES), *((PAST, WAS_DOING),) * 2)

# Polarities by the verb's aspect and tense. A missing entry is not generated: "he is knowing",
# "he was never eating".
MOSTLY_YES = (YES, YES, YES, YES, NOT)
POLARITIES: dict[str, dict[Tense, tuple[Polarity, ...]]] = {
    "activity": {
        PRESENT: (*MOSTLY_YES, NEVER, NO_LONGER),
        PROGRESSIVE: (*MOSTLY_YES, NO_LONGER),
        PAST: (*MOSTLY_YES, NEVER),
        FUTURE: (*MOSTLY_YES, NEVER),
        WAS_DOING: MOSTLY_YES,
        USED_TO: (YES,),
        CAN: (YES, YES, NOT, NO_LONGER),
        MUST: (YES, YES, NOT, NEVER),
    },
    "event": {
        PRESENT: (*MOSTLY_YES, NEVER),
        PAST: (*MOSTLY_YES, NEVER),
        FUTURE: (*MOSTLY_YES, NEVER),
    },
    "perception": {
        PRESENT: (*MOSTLY_YES, NEVER),
        PAST: (*MOSTLY_YES, NEVER),
        FUTURE: (*MOSTLY_YES, NEVER),
        CAN: (YES, YES, NOT, NO_LONGER),
    },
    "state": {
        PRESENT: (*MOSTLY_YES, NO_LONGER),
        PAST: (*MOSTLY_YES, NO_LONGER),
        FUTURE: (*MOSTLY_YES, NEVER),
        USED_TO: (YES,),
    },
    "being": {
        PRESENT: (*MOSTLY_YES, NEVER, NO_LONGER),
        PAST: (*MOSTLY_YES, NO_LONGER),
        FUTURE: MOSTLY_YES,
    },
}
TIMES_IN = {tense: [t for t in TIMES if tense in t.tenses] for tense in TENSES}
FREQUENCIES_IN = {tense: [f for f in FREQUENCIES if tense in f.tenses] for tense in TENSES}

# Determiners

UNCOUNTED = {"staple", "drink"}
SINGULAR_ONLY = {*UNCOUNTED, "parent"}
FAMILY = {"kin", "parent"}  # always with a possessive
# Not "my woman", "my girl": they would be my wife and my daughter.
OWNED = frozenset(
    select(
        "person kin parent animal text tale garment vehicle furniture object food staple drink "
        "house castle school garden kitchen part flower -wolf -owl -mouse -actress -writer -king "
        "-queen"
    )
)
PERSONS = select("people")
OWNERS = select("person kin parent man woman")
WHOLES = select("house castle church school hotel kitchen")  # a part is the door of one of these

_KNOWN = (*(THE,) * 6, *(THIS,) * 2)
_COUNTED = {
    False: (*(THE,) * 8, *(A,) * 6, *(THIS,) * 3),
    True: (*(THE,) * 6, *(A,) * 4, *(THIS,) * 3, *(MANY,) * 2, *NUMBERS),
}


def determiners(noun: Noun, plural: bool, known: bool) -> Sequence[Determiner]:
    """Return the determiners of a noun; `known` excludes indefinite ones."""
    if noun.kind in FAMILY:
        return POSSESSIVES
    if known:
        return _KNOWN
    return (*_KNOWN, *(SOME,) * 8) if noun.kind in UNCOUNTED else _COUNTED[plural]


# Verbs and adjectives


def _by_noun(nouns_of: Callable[[Verb], Sequence[Noun]]) -> dict[tuple[Noun, Tense], list[Verb]]:
    return {
        (noun, tense): [v for v in VERBS if noun in nouns_of(v) and tense in POLARITIES[v.aspect]]
        for noun in NOUNS
        for tense in TENSES_OF_RELATIVES
    }


VERBS_IN = {
    tense: [v for v in (*VERBS, *(BE,) * 9) if tense in POLARITIES[v.aspect]] for tense in TENSES
}
DONE_BY = _by_noun(lambda verb: verb.subjects)
DONE_TO = _by_noun(lambda verb: verb.objects)
ADJECTIVES_OF = {noun: [a for a in ADJECTIVES if noun in a.nouns] for noun in NOUNS}
# After another adjective in English and after the noun in French: a small red car.
_COLOURS = {"red", "green", "blue", "white", "black", "French", "Italian"}
COLOURS_OF = {noun: [a for a in ADJECTIVES_OF[noun] if a.english in _COLOURS] for noun in NOUNS}
# Adjectives of temporary states: one may be no longer tired, but not no longer Italian.
_STATES = {"tired", "happy", "sad", "rich", "sick", "dirty", "empty", "dangerous"}
PASSING = [a for a in ADJECTIVES if a.english in _STATES]
FEELINGS = [a for a in PASSING if {*select("people -child")} <= {*a.nouns}]
DEEDS_IN = {t: [v for v in VERBS_IN[t] if v.aspect not in ("state", "being")] for t in TENSES}
LIKING = {verb for verb in VERBS if verb.english["base"][0] in ("love", "hate")}  # I love cats

# Nouns and prepositions of "be" with a place.
PLACED = tuple(
    (select(nouns), [PREPOSITIONS[name] for name in names])
    for nouns, names in {
        "animate": ("in", "in", "behind", "near", "in front of", "at"),
        "garment object text food": ("on", "under", "in", "near"),
    }.items()
)
PLACES = {PREPOSITIONS[name] for name in ("in", "behind", "near", "at", "to", "in front of")}


def concerns_people(nouns: Sequence[Noun]) -> bool:
    """Return whether people are among the nouns; the lexicon lists them first."""
    return bool(nouns) and nouns[0].kind in PEOPLE
