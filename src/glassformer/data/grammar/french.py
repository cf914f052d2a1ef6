"""Realisation of a tree in French: agreement, clitics, negation, elision, contraction."""

from functools import cache

from glassformer.data.grammar import tree
from glassformer.data.grammar.lexicon import BE, HAVE
from glassformer.data.grammar.tagged import Word, adverb, sentence_words, words
from glassformer.data.grammar.words import NO_ADVERB, REFLEXIVE, WHERE, Agreement, Question

_ELIDED = ("le", "la", "je", "me", "te", "se", "ne", "de", "que")
_BEFORE_VOWEL = {
    **{word: word[:-1] + "'" for word in _ELIDED},
    **{"ce": "cet", "ma": "mon", "ta": "ton", "sa": "son"},
}
_CONTRACTED = {
    ("de", "le"): "du",
    ("de", "les"): "des",
    ("de", "des"): "de",  # near some houses: près de maisons
    ("de", "de"): "de",
    ("à", "le"): "au",
    ("à", "les"): "aux",
}
_ASPIRATED = {"hibou", "hiboux"}


def realise(sentence: tree.Sentence) -> list[Word]:
    """Return the words of a sentence, in lower case."""
    link = sentence.link.french if sentence.link else ""
    return _adjust(sentence_words(sentence, link, _clause, _question))


def text(sentence_words: tuple[str, ...]) -> str:
    """Join the words: a space before a question mark, none after an apostrophe."""
    return " ".join(sentence_words).replace("' ", "'").replace(" ,", ",").replace(" .", ".")


@cache
def opens_with_vowel(word: str) -> bool:
    """Return whether a word begins with a vowel sound, as homme does and hibou does not."""
    return word[0] in "aàâeéèêiîoôuœ" or (word[0] == "h" and word not in _ASPIRATED)


def _question(sentence: tree.Sentence, question: Question) -> list[Word]:
    """Return a question: Qui chante ? Où est le chat ? Others with est-ce que."""
    clause = sentence.clause
    asked = words(question.french, (sentence, "asked"))
    if sentence.asked is not None:
        asked = _noun_phrase(sentence.asked)
    if isinstance(clause.subject, tree.Gap):
        return [*asked, *_clause(clause)]
    if question is WHERE and clause.verb is BE:
        return [*asked, *_verb_group(clause), *_subject(clause.subject)]
    return [*asked, *words("est-ce que", (clause, "question")), *_clause(clause)]


def _clause(clause: tree.Clause) -> list[Word]:
    time = adverb(clause, "time", (clause.time or NO_ADVERB).french)
    return [
        *([*time, Word(",", ((clause, "comma"),))] if clause.time_first else []),
        *_subject(clause.subject),
        *_verb_group(clause),
        *_complements(clause),
        *([] if clause.time_first else time),
    ]


def _verb_group(clause: tree.Clause) -> list[Word]:
    """Return ne, clitics, verb and pas; clitics precede an infinitive, or else the finite verb."""
    ne = words("ne" if clause.polarity.french else "", (clause, "polarity"))
    pas = words(clause.polarity.french, (clause, "polarity"))
    frequency = adverb(clause, "frequency", (clause.frequency or NO_ADVERB).french)
    clitics, (finite, *rest) = _clitics(clause), _verb(clause)
    if clause.tense.modal is not None:
        return [*ne, finite, *pas, *frequency, *clitics, *rest]
    return [*ne, *clitics, finite, *pas, *frequency, *rest]


def _verb(clause: tree.Clause) -> list[Word]:
    """Return the finite verb, with a participle or an infinitive if the tense has one."""
    verb, person = clause.verb.french, clause.subject.agreement.person
    of_verb, of_tense = (clause, "verb"), (clause, "tense")
    tense = clause.tense.french
    if tense == "perfect" and clause.verb.aspect in ("state", "being"):
        tense = "imperfect"  # he had, he was: il avait, il était
    if clause.tense.modal is not None:
        modal = clause.tense.modal.finite["present"][person]
        return [Word(modal, (of_tense,)), Word(verb.infinitive, (of_verb,))]
    if tense == "perfect":
        auxiliary = (BE if verb.with_etre else HAVE).french.finite["present"][person]
        participle = verb.participle[_participle_agreement(clause).form]
        return [Word(auxiliary, (of_tense,)), Word(participle, (of_verb,))]
    return [Word(verb.finite[tense][person], (of_verb, of_tense))]


def _participle_agreement(clause: tree.Clause) -> Agreement:
    """Return the agreement of a participle: the subject's with être, or a preceding object's."""
    if clause.verb.french.with_etre:
        return clause.subject.agreement
    if isinstance(clause.object, tree.Pronoun | tree.Gap):
        return clause.object.agreement
    return Agreement()


def _clitics(clause: tree.Clause) -> list[Word]:
    found: list[Word] = []
    if clause.verb.reflexive:
        found += words(REFLEXIVE[clause.subject.agreement.person], (clause, "verb"))
    if isinstance(clause.recipient, tree.Pronoun):
        found += words(clause.recipient.word.indirect, (clause.recipient, "pronoun"))
    if isinstance(clause.object, tree.Pronoun):
        found += words(clause.object.word.direct, (clause.object, "pronoun"))
    return found


def _complements(clause: tree.Clause) -> list[Word]:
    found: list[Word] = []
    if clause.predicate is not None:
        form = clause.predicate.french[clause.subject.agreement.form]
        found += words(form, (clause, "predicate"))
    if isinstance(clause.object, tree.NounPhrase | tree.Both):
        found += _full(clause.object, negated=bool(clause.polarity.french))
    if isinstance(clause.recipient, tree.NounPhrase):
        found += [Word("à", ((clause, "to"),)), *_full(clause.recipient)]
    if clause.adjunct is not None:
        found += _adjunct(clause.adjunct)
    if clause.content is not None:
        found += [Word("que", ((clause, "that"),)), *_clause(clause.content)]
    return found


def _adjunct(adjunct: tree.Adjunct) -> list[Word]:
    preposition = words(adjunct.preposition.french, (adjunct, "preposition"))
    if isinstance(adjunct.complement, tree.Pronoun):
        strong = adjunct.complement.word.strong
        return [*preposition, Word(strong, ((adjunct.complement, "pronoun"),))]
    return [*preposition, *_full(adjunct.complement)]


def _subject(subject: tree.Nominal) -> list[Word]:
    if isinstance(subject, tree.Pronoun):
        return [Word(subject.word.subject, ((subject, "pronoun"),))]
    return [] if isinstance(subject, tree.Gap) else _full(subject)


def _full(phrase: tree.NounPhrase | tree.Both, negated: bool = False) -> list[Word]:
    if isinstance(phrase, tree.NounPhrase):
        return _noun_phrase(phrase, negated)
    conjunction = Word("et", ((phrase, "and"),))
    return [*_noun_phrase(phrase.first), conjunction, *_noun_phrase(phrase.second)]


def _noun_phrase(phrase: tree.NounPhrase, negated: bool = False) -> list[Word]:
    noun, form = phrase.noun.french[phrase.plural], phrase.agreement.form
    found = _determiner(phrase, negated)
    if phrase.before is not None:
        adjective = phrase.before.french[form]
        if form == 0 and opens_with_vowel(noun):
            adjective = phrase.before.before_vowel
        found.append(Word(adjective, ((phrase, "before"),)))
    found.append(Word(noun, ((phrase, "noun"),)))
    if phrase.after is not None:
        found.append(Word(phrase.after.french[form], ((phrase, "after"),)))
    if phrase.owner is not None:
        found += [Word("de", ((phrase, "of"),)), *_noun_phrase(phrase.owner)]
    if phrase.relative is not None:
        pronoun = "qui" if isinstance(phrase.relative.subject, tree.Gap) else "que"
        found += [Word(pronoun, ((phrase, "relative"),)), *_clause(phrase.relative)]
    return found


def _determiner(phrase: tree.NounPhrase, negated: bool) -> list[Word]:
    """Return the determiner; des becomes de before an adjective: de petits chiens."""
    determiner = (negated and phrase.determiner.negated) or phrase.determiner
    article = determiner.french[phrase.agreement.form]
    if article == "des" and phrase.before is not None:
        article = "de"
    return words(article, (phrase, "determiner"))


def _elided(word: str, following: str) -> str:
    if word == "si":
        return "s'" if following in ("il", "ils") else word
    return _BEFORE_VOWEL.get(word, word) if opens_with_vowel(following) else word


def _adjust(found: list[Word]) -> list[Word]:
    """Apply the rules of adjacent words: l'homme, cet homme, mon école, du pain, s'il."""
    adjusted: list[Word] = []
    for word, following in zip(found, [*found[1:], found[-1]], strict=True):
        text, keys = _elided(word.text, following.text), word.keys
        if adjusted and (adjusted[-1].text, text) in _CONTRACTED:
            text = _elided(_CONTRACTED[adjusted[-1].text, text], following.text)
            keys = (*adjusted.pop().keys, *keys)
        adjusted.append(Word(text, keys))
    return adjusted
