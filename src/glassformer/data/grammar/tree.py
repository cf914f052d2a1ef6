"""Syntax trees, which do not depend on the language.

Nodes are compared by identity: "the man" twice in a sentence is two nodes with different keys.
"""

from dataclasses import dataclass

from glassformer.data.grammar.words import (
    THE,
    YES,
    Adjective,
    Adverb,
    Agreement,
    Determiner,
    Link,
    Noun,
    Personal,
    Polarity,
    Preposition,
    Question,
    Tense,
    Verb,
)

PEOPLE = {"human", "person", "kin", "parent"}  # kinds of nouns


@dataclass(eq=False, slots=True)
class NounPhrase:
    """A noun with its dependents: the king's small black cat that is sleeping."""

    noun: Noun
    determiner: Determiner = THE
    plural: bool = False
    before: Adjective | None = None  # before or after the noun in French
    after: Adjective | None = None
    owner: "NounPhrase | None" = None
    relative: "Clause | None" = None

    @property
    def agreement(self) -> Agreement:
        return Agreement(4 if self.plural else 2, self.plural, self.noun.feminine)

    @property
    def is_person(self) -> bool:
        return self.noun.kind in PEOPLE


@dataclass(eq=False, slots=True)
class Both:
    """Two noun phrases: the king and the queen. Masculine unless both are feminine."""

    first: NounPhrase
    second: NounPhrase

    @property
    def agreement(self) -> Agreement:
        return Agreement(4, True, self.first.noun.feminine and self.second.noun.feminine)


@dataclass(eq=False, slots=True)
class Pronoun:
    word: Personal

    @property
    def agreement(self) -> Agreement:
        return self.word.agreement


@dataclass(eq=False, slots=True)
class Gap:
    """The place of the noun of a relative clause, or of the question word."""

    agreement: Agreement = Agreement()  # noqa: RUF009  (a tuple, so it is safe to share)
    noun: Noun | None = None


Nominal = NounPhrase | Both | Pronoun | Gap


@dataclass(eq=False, slots=True)
class Adjunct:
    preposition: Preposition
    complement: NounPhrase | Pronoun


@dataclass(eq=False, slots=True)
class Clause:
    subject: Nominal
    verb: Verb
    tense: Tense
    polarity: Polarity = YES
    object: Nominal | None = None
    recipient: NounPhrase | Pronoun | None = None
    predicate: Adjective | None = None  # of "be"
    adjunct: Adjunct | None = None
    frequency: Adverb | None = None
    time: Adverb | None = None
    time_first: bool = False
    content: "Clause | None" = None  # she thinks that …


@dataclass(eq=False, slots=True)
class Sentence:
    """A statement, a question, or two clauses with a link between or before them."""

    clause: Clause
    question: Question | None = None
    asked: NounPhrase | None = None  # which book …; the clause's object is then a gap
    link: Link | None = None
    second: Clause | None = None
