"""Splits by held-out combinations of words.

A combination is a verb or an adjective with a noun that it goes with. One in twenty is reserved for
"valid" and one in twenty for "test". Training sentences contain neither; every sentence of another
split contains at least one of its own. So no sentence is in two splits, and the test measures
generalisation to unseen combinations.
"""

from collections.abc import Iterator

from glassformer.data.grammar.lexicon import BE
from glassformer.data.grammar.tree import Both, Clause, Gap, Nominal, NounPhrase, Sentence
from glassformer.data.grammar.words import Adjective, Noun, Verb

SPLITS = ("train", "valid", "test")
Combination = tuple[Verb | Adjective, Noun]


def split_of(combination: Combination) -> str:
    """Return the split of a combination, by a Latin square: each word keeps most of its nouns."""
    word, noun = combination
    return {0: "test", 10: "valid"}.get((7 * word.rank + noun.rank) % 20, "train")


def belongs(sentence: Sentence, split: str) -> bool:
    splits = {split_of(combination) for combination in combinations(sentence)}
    return splits <= {"train", split} and (split == "train" or split in splits)


def combinations(sentence: Sentence) -> Iterator[Combination]:
    """Yield every verb or adjective of a sentence with each noun that it applies to."""
    yield from _of_clause(sentence.clause)
    yield from _of_nominal(sentence.asked)
    if sentence.second is not None:
        yield from _of_clause(sentence.second)


def _of_clause(clause: Clause) -> Iterator[Combination]:
    if clause.verb is not BE:
        for nominal in (clause.subject, clause.object, clause.recipient):
            yield from ((clause.verb, noun) for noun in _nouns(nominal))
    if clause.predicate is not None:
        yield from ((clause.predicate, noun) for noun in _nouns(clause.subject))
    complement = clause.adjunct.complement if clause.adjunct else None
    for nominal in (clause.subject, clause.object, clause.recipient, complement):
        yield from _of_nominal(nominal)
    if clause.content is not None:
        yield from _of_clause(clause.content)


def _nouns(nominal: Nominal | None) -> list[Noun]:
    match nominal:
        case NounPhrase():
            return [nominal.noun]
        case Both():
            return [nominal.first.noun, nominal.second.noun]
        case Gap(noun=Noun() as noun):
            return [noun]
    return []


def _of_nominal(nominal: Nominal | None) -> Iterator[Combination]:
    if isinstance(nominal, Both):
        yield from _of_nominal(nominal.first)
        yield from _of_nominal(nominal.second)
    if isinstance(nominal, NounPhrase):
        adjectives = (nominal.before, nominal.after)
        yield from ((adjective, nominal.noun) for adjective in adjectives if adjective is not None)
        yield from _of_nominal(nominal.owner)
        if nominal.relative is not None:
            yield from _of_clause(nominal.relative)
