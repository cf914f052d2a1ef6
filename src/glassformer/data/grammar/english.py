"""A tree in English: do-support, word order, a and an."""

from glassformer.data.grammar.lexicon import BE
from glassformer.data.grammar.tagged import Key, Word, words
from glassformer.data.grammar.tree import (
    Adjunct,
    Both,
    Clause,
    Gap,
    Nominal,
    NounPhrase,
    Pronoun,
    Sentence,
)
from glassformer.data.grammar.words import NOT, PAST, Adverb, Question

_SUBJECT, _OBJECT = 0, 1


def speak(sentence: Sentence) -> list[Word]:
    """The sentence, in lower case but for names and I."""
    question = sentence.question
    spoken = _linked(sentence) if question is None else _question(sentence, question)
    mark = "." if question is None else "?"
    return _settle([*spoken, Word(mark, ((sentence, "end"),))])


def text(sentence_words: tuple[str, ...]) -> str:
    joined = " ".join(sentence_words)
    return joined.replace(" 's", "'s").replace(" ,", ",").replace(" .", ".").replace(" ?", "?")


def _linked(sentence: Sentence) -> list[Word]:
    first = _clause(sentence.clause)
    if sentence.link is None or sentence.second is None:
        return first
    link, second = words(sentence.link.english, (sentence, "link")), _clause(sentence.second)
    if sentence.link.leads:
        return [*link, *first, Word(",", ((sentence, "comma"),)), *second]
    return [*first, *link, *second]


def _question(sentence: Sentence, question: Question) -> list[Word]:
    asked = words(question.english, (sentence, "asked"))
    if sentence.asked is not None:
        asked = _noun_phrase(sentence.asked)
    inverted = not isinstance(sentence.clause.subject, Gap)
    return [*asked, *_clause(sentence.clause, inverted)]


def _clause(clause: Clause, inverted: bool = False) -> list[Word]:
    """Subject, auxiliary, negation, verb and what follows; a question puts the auxiliary first."""
    subject = _nominal(clause.subject, _SUBJECT)
    auxiliary, verb = _verb(clause, inverted)
    negation = words(clause.polarity.english, (clause, "polarity"))
    time = _adverb(clause, "time", clause.time)
    return [
        *([*time, Word(",", ((clause, "comma"),))] if clause.time_first else []),
        *([*auxiliary, *subject] if inverted else [*subject, *auxiliary]),
        *negation,
        *_adverb(clause, "frequency", clause.frequency),
        *verb,
        *_complements(clause),
        *([] if clause.time_first else time),
    ]


def _verb(clause: Clause, inverted: bool) -> tuple[list[Word], list[Word]]:
    """The auxiliary, if there is one, and the verb with its particle."""
    verb, tense, person = clause.verb, clause.tense, clause.subject.agreement.person
    of_verb, of_tense = (clause, "verb"), (clause, "tense")
    of_question: tuple[Key, ...] = ((clause, "question"),) if inverted else ()
    form = verb.english[tense.form][person]
    particle = words(verb.particle, of_verb)
    if tense.auxiliary is not None:
        auxiliary = words(tense.auxiliary[person], of_tense, *of_question)
        return auxiliary, [Word(form, (of_verb,)), *particle]
    if verb is BE:
        return [Word(form, (of_verb, of_tense, *of_question))], []
    if inverted or clause.polarity is NOT:
        # "Do" stands for what asks or denies; "did" for the past as well.
        reasons: tuple[Key, ...] = of_question or ((clause, "polarity"),)
        past: tuple[Key, ...] = (of_tense,) if tense is PAST else ()
        base = Word(verb.english["base"][person], (of_verb,))
        return [Word(tense.do[person], (*reasons, *past))], [base, *particle]
    return [], [Word(form, (of_verb, of_tense)), *particle]


def _complements(clause: Clause) -> list[Word]:
    """She gave me the book; she gave the book to the king."""
    spoken: list[Word] = []
    if clause.predicate is not None:
        spoken += words(clause.predicate.english, (clause, "predicate"))
    if isinstance(clause.recipient, Pronoun):
        spoken += _nominal(clause.recipient, _OBJECT)
    if clause.object is not None:
        spoken += _nominal(clause.object, _OBJECT, negated=bool(clause.polarity.english))
    if isinstance(clause.recipient, NounPhrase):
        spoken += [Word("to", ((clause, "to"),)), *_nominal(clause.recipient, _OBJECT)]
    if clause.adjunct is not None:
        spoken += _adjunct(clause.adjunct)
    if clause.content is not None:
        spoken += [Word("that", ((clause, "that"),)), *_clause(clause.content)]
    return spoken


def _adjunct(adjunct: Adjunct) -> list[Word]:
    preposition = words(adjunct.preposition.english, (adjunct, "preposition"))
    return [*preposition, *_nominal(adjunct.complement, _OBJECT)]


def _adverb(clause: Clause, name: str, adverb: Adverb | None) -> list[Word]:
    entries = () if adverb is None else adverb.english
    return [Word(entry, ((clause, name + label),)) for entry, label in entries]


def _nominal(nominal: Nominal, case: int, negated: bool = False) -> list[Word]:
    match nominal:
        case NounPhrase():
            return _noun_phrase(nominal, negated)
        case Pronoun():
            return [Word(nominal.word.english[case], ((nominal, "pronoun"),))]
        case Both():
            conjunction = Word("and", ((nominal, "and"),))
            return [*_noun_phrase(nominal.first), conjunction, *_noun_phrase(nominal.second)]
        case Gap():
            return []


def _noun_phrase(phrase: NounPhrase, negated: bool = False) -> list[Word]:
    number, owner = int(phrase.plural), phrase.owner
    determiner = (negated and phrase.determiner.negated) or phrase.determiner
    spoken = words(determiner.english[number], (phrase, "determiner"))
    if owner is not None and owner.is_person:
        genitive = Word("'s", ((phrase, "of"), (phrase, "determiner")))
        spoken = [*_noun_phrase(owner), genitive]
    if phrase.before is not None:
        spoken.append(Word(phrase.before.english, ((phrase, "before"),)))
    if phrase.after is not None:
        spoken.append(Word(phrase.after.english, ((phrase, "after"),)))
    spoken.append(Word(phrase.noun.english[number], ((phrase, "noun"),)))
    if owner is not None and not owner.is_person:
        spoken += [Word("of", ((phrase, "of"),)), *_noun_phrase(owner)]
    if phrase.relative is not None:
        is_subject = isinstance(phrase.relative.subject, Gap)
        pronoun = "who" if is_subject and phrase.is_person else "that"
        spoken += [Word(pronoun, ((phrase, "relative"),)), *_clause(phrase.relative)]
    return spoken


def _settle(spoken: list[Word]) -> list[Word]:
    """What depends on the neighbour: an apple, cannot."""
    settled: list[Word] = []
    for word in spoken:
        last = settled[-1] if settled else Word("", ())
        if last.text == "a" and word.text[0] in "aeiouAEIOU":
            settled[-1] = Word("an", last.keys)
        if (last.text, word.text) == ("can", "not"):
            settled[-1] = Word("cannot", (*last.keys, *word.keys))
        else:
            settled.append(word)
    return settled
