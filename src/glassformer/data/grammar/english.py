"""Realisation of a tree in English: do-support, word order, a and an."""

from glassformer.data.grammar import tree
from glassformer.data.grammar.lexicon import BE
from glassformer.data.grammar.tagged import Key, Word, adverb, sentence_words, words
from glassformer.data.grammar.words import NO_ADVERB, NOT, PAST, Question

_SUBJECT, _OBJECT = 0, 1


def realise(sentence: tree.Sentence) -> list[Word]:
    """Return the words of a sentence, in lower case but for names and I."""
    link = sentence.link.english if sentence.link else ""
    return _adjust(sentence_words(sentence, link, _clause, _question))


def text(sentence_words: tuple[str, ...]) -> str:
    joined = " ".join(sentence_words)
    return joined.replace(" 's", "'s").replace(" ,", ",").replace(" .", ".").replace(" ?", "?")


def _question(sentence: tree.Sentence, question: Question) -> list[Word]:
    asked = words(question.english, (sentence, "asked"))
    if sentence.asked is not None:
        asked = _noun_phrase(sentence.asked)
    inverted = not isinstance(sentence.clause.subject, tree.Gap)
    return [*asked, *_clause(sentence.clause, inverted)]


def _clause(clause: tree.Clause, inverted: bool = False) -> list[Word]:
    """Return subject, auxiliary, negation, verb and complements; `inverted`: auxiliary first."""
    subject = _nominal(clause.subject, _SUBJECT)
    auxiliary, verb = _verb(clause, inverted)
    negation = words(clause.polarity.english, (clause, "polarity"))
    time = adverb(clause, "time", (clause.time or NO_ADVERB).english)
    return [
        *([*time, Word(",", ((clause, "comma"),))] if clause.time_first else []),
        *([*auxiliary, *subject] if inverted else [*subject, *auxiliary]),
        *negation,
        *adverb(clause, "frequency", (clause.frequency or NO_ADVERB).english),
        *verb,
        *_complements(clause),
        *([] if clause.time_first else time),
    ]


def _verb(clause: tree.Clause, inverted: bool) -> tuple[list[Word], list[Word]]:
    """Return the auxiliary, if there is one, and the verb with its particle."""
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
        # "Do" expresses the question or the negation; "did" also the past.
        reasons: tuple[Key, ...] = of_question or ((clause, "polarity"),)
        past: tuple[Key, ...] = (of_tense,) if tense is PAST else ()
        base = Word(verb.english["base"][person], (of_verb,))
        return [Word(tense.do[person], (*reasons, *past))], [base, *particle]
    return [], [Word(form, (of_verb, of_tense)), *particle]


def _complements(clause: tree.Clause) -> list[Word]:
    """Return the words after the verb: (gave) me the book; (gave) the book to the king."""
    found: list[Word] = []
    if clause.predicate is not None:
        found += words(clause.predicate.english, (clause, "predicate"))
    if isinstance(clause.recipient, tree.Pronoun):
        found += _nominal(clause.recipient, _OBJECT)
    if clause.object is not None:
        found += _nominal(clause.object, _OBJECT, negated=bool(clause.polarity.english))
    if isinstance(clause.recipient, tree.NounPhrase):
        found += [Word("to", ((clause, "to"),)), *_nominal(clause.recipient, _OBJECT)]
    if clause.adjunct is not None:
        found += _adjunct(clause.adjunct)
    if clause.content is not None:
        found += [Word("that", ((clause, "that"),)), *_clause(clause.content)]
    return found


def _adjunct(adjunct: tree.Adjunct) -> list[Word]:
    preposition = words(adjunct.preposition.english, (adjunct, "preposition"))
    return [*preposition, *_nominal(adjunct.complement, _OBJECT)]


def _nominal(nominal: tree.Nominal, case: int, negated: bool = False) -> list[Word]:
    match nominal:
        case tree.NounPhrase():
            return _noun_phrase(nominal, negated)
        case tree.Pronoun():
            return [Word(nominal.word.english[case], ((nominal, "pronoun"),))]
        case tree.Both():
            conjunction = Word("and", ((nominal, "and"),))
            return [*_noun_phrase(nominal.first), conjunction, *_noun_phrase(nominal.second)]
        case tree.Gap():
            return []


def _noun_phrase(phrase: tree.NounPhrase, negated: bool = False) -> list[Word]:
    number, owner = int(phrase.plural), phrase.owner
    determiner = (negated and phrase.determiner.negated) or phrase.determiner
    found = words(determiner.english[number], (phrase, "determiner"))
    if owner is not None and owner.is_person:
        genitive = Word("'s", ((phrase, "of"), (phrase, "determiner")))
        found = [*_noun_phrase(owner), genitive]
    if phrase.before is not None:
        found.append(Word(phrase.before.english, ((phrase, "before"),)))
    if phrase.after is not None:
        found.append(Word(phrase.after.english, ((phrase, "after"),)))
    found.append(Word(phrase.noun.english[number], ((phrase, "noun"),)))
    if owner is not None and not owner.is_person:
        found += [Word("of", ((phrase, "of"),)), *_noun_phrase(owner)]
    if phrase.relative is not None:
        is_subject = isinstance(phrase.relative.subject, tree.Gap)
        pronoun = "who" if is_subject and phrase.is_person else "that"
        found += [Word(pronoun, ((phrase, "relative"),)), *_clause(phrase.relative)]
    return found


def _adjust(found: list[Word]) -> list[Word]:
    """Apply the rules of adjacent words: an apple, cannot."""
    adjusted: list[Word] = []
    for word in found:
        last = adjusted[-1] if adjusted else Word("", ())
        if last.text == "a" and word.text[0] in "aeiouAEIOU":
            adjusted[-1] = Word("an", last.keys)
        if (last.text, word.text) == ("can", "not"):
            adjusted[-1] = Word("cannot", (*last.keys, *word.keys))
        else:
            adjusted.append(word)
    return adjusted
