"""Inflection: English -s, -ed, -ing; French plurals, feminines, conjugation.

Verbs have five persons, in this order everywhere: I, you, he or she, we, they. English "you" is
always the French singular "tu", so that a sentence has one translation; there is no "vous".
Adjectives and participles have four forms: masculine, feminine, and the plurals of the two.
"""

import re
from typing import NamedTuple

Persons = tuple[str, str, str, str, str]
Genders = tuple[str, str, str, str]


def ending_in_s(word: str) -> str:
    """Return the plural of a noun or the third person of a verb: keys, boxes, carries."""
    if re.search(r"(s|x|ch|sh|o)$", word):
        return word + "es"
    return re.sub(r"([^aeiou])y$", r"\1ie", word) + "s"


def ending_in_ed(verb: str) -> str:
    return re.sub(r"([^aeiou])y$", r"\1ie", verb).removesuffix("e") + "ed"


def ending_in_ing(verb: str) -> str:
    """Return writing for write; a single short vowel doubles the consonant: run, running."""
    if re.fullmatch(r"[^aeiou]*[aeiou][bdgmnpt]", verb):
        return verb + verb[-1] + "ing"
    return verb.removesuffix("e") + "ing"


def same(form: str) -> Persons:
    return (form, form, form, form, form)


def english_forms(base: str, past: str = "") -> dict[str, Persons]:
    third = {"have": "has"}.get(base, ending_in_s(base))
    return {
        "base": same(base),
        "present": (base, base, third, base, base),
        "past": same(past or ending_in_ed(base)),
        "ing": same(ending_in_ing(base)),
    }


def french_plural(word: str) -> str:
    if word[-1] in "sxz":
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


_FEMININES = {"eux": "euse", "er": "ère", "ien": "ienne", "e": "e"}


def french_feminine(word: str) -> str:
    for masculine, feminine in _FEMININES.items():
        if word.endswith(masculine):
            return word.removesuffix(masculine) + feminine
    return word + "e"


def french_genders(masculine: str, feminine: str = "") -> Genders:
    feminine = feminine or french_feminine(masculine)
    return masculine, feminine, french_plural(masculine), french_plural(feminine)


class Conjugation(NamedTuple):
    """A French verb; `finite` is keyed by tense: present, imperfect, future."""

    infinitive: str
    finite: dict[str, Persons]
    participle: Genders
    with_etre: bool


_WITH_ETRE = {"aller", "venir", "arriver", "partir", "tomber", "rester"}

# Endings of the present, of the stem of the future, and of the participle.
_REGULAR = {
    "er": ("e es e ons ent", "er", "é"),
    "ir": ("is is it issons issent", "ir", "i"),
    "re": ("s s - ons ent", "r", "u"),
}

_IRREGULAR = """
avoir      ai        as        a         avons        ont           aur       eu
être       suis      es        est       sommes       sont          ser       été
aller      vais      vas       va        allons       vont          ir        allé
venir      viens     viens     vient     venons       viennent      viendr    venu
partir     pars      pars      part      partons      partent       partir    parti
dormir     dors      dors      dort      dormons      dorment       dormir    dormi
courir     cours     cours     court     courons      courent       courr     couru
ouvrir     ouvre     ouvres    ouvre     ouvrons      ouvrent       ouvrir    ouvert
voir       vois      vois      voit      voyons       voient        verr      vu
vouloir    veux      veux      veut      voulons      veulent       voudr     voulu
pouvoir    peux      peux      peut      pouvons      peuvent       pourr     pu
devoir     dois      dois      doit      devons       doivent       devr      dû
connaître  connais   connais   connaît   connaissons  connaissent   connaîtr  connu
boire      bois      bois      boit      buvons       boivent       boir      bu
écrire     écris     écris     écrit     écrivons     écrivent      écrir     écrit
dire       dis       dis       dit       disons       disent        dir       dit
suivre     suis      suis      suit      suivons      suivent       suivr     suivi
acheter    achète    achètes   achète    achetons     achètent      achèter   acheté
envoyer    envoie    envoies   envoie    envoyons     envoient      enverr    envoyé
"""

_IRREGULAR_FORMS = {line.split()[0]: line.split()[1:] for line in _IRREGULAR.strip().splitlines()}
_IMPERFECT = "ais ais ait ions aient"
_FUTURE = "ai as a ons ont"


def _with_endings(stem: str, endings: str) -> Persons:
    """Join stem and endings; g stays soft: mange, mangeons, mangeait, but mangions."""
    forms = [ending.strip("-") for ending in endings.split()]
    soft = [("e" if stem[-1] == "g" and form[:1] in ("a", "o") else "") + form for form in forms]
    first, second, third, fourth, fifth = (stem + form for form in soft)
    return first, second, third, fourth, fifth


def conjugation(infinitive: str, reflexive: bool = False) -> Conjugation:
    """Return all forms of a verb, given its infinitive."""
    if infinitive in _IRREGULAR_FORMS:
        first, second, third, fourth, fifth, future, participle = _IRREGULAR_FORMS[infinitive]
        present = (first, second, third, fourth, fifth)
        imperfect = "ét" if infinitive == "être" else fourth.removesuffix("ons")
    else:
        stem = infinitive[:-2]
        endings, future_ending, participle_ending = _REGULAR[infinitive[-2:]]
        present = _with_endings(stem, endings)
        future, participle = stem + future_ending, stem + participle_ending
        imperfect = stem + ("iss" if infinitive.endswith("ir") else "")
    finite = {
        "present": present,
        "imperfect": _with_endings(imperfect, _IMPERFECT),
        "future": _with_endings(future, _FUTURE),
    }
    with_etre = reflexive or infinitive in _WITH_ETRE
    return Conjugation(infinitive, finite, french_genders(participle), with_etre)
