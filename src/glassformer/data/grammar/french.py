"""A tree in French: agreement, clitics, negation around the verb, elision, contraction."""

from functools import cache

from glassformer.data.grammar.lexicon import BE, HAVE
from glassformer.data.grammar.tagged import Word, words
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
from glassformer.data.grammar.words import REFLEXIVE, WHERE, Adverb, Agreement, Question

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


def speak(sentence: Sentence) -> list[Word]:
    """The sentence in lower case."""
    question = sentence.question
    spoken = _linked(sentence) if question is None else _question(sentence, question)
    mark = "." if question is None else "?"
    return _settle([*spoken, Word(mark, ((sentence, "end"),))])


def text(sentence_words: tuple[str, ...]) -> str:
    """A plain space stands before a question mark, none behind an apostrophe."""
    return " ".join(sentence_words).replace("' ", "'").replace(" ,", ",").replace(" .", ".")


@cache
def opens_with_vowel(word: str) -> bool:
    """To the ear: the h of homme is mute, that of hibou is not."""
    return word[0] in "aàâeéèêiîoôuœ" or (word[0] == "h" and word not in _ASPIRATED)


def _linked(sentence: Sentence) -> list[Word]:
    first = _clause(sentence.clause)
    if sentence.link is None or sentence.second is None:
        return first
    link, second = words(sentence.link.french, (sentence, "link")), _clause(sentence.second)
    if sentence.link.leads:
        return [*link, *first, Word(",", ((sentence, "comma"),)), *second]
    return [*first, *link, *second]


def _question(sentence: Sentence, question: Question) -> list[Word]:
    """Qui chante ? Où est le chat ? All else with est-ce que."""
    clause = sentence.clause
    asked = words(question.french, (sentence, "asked"))
    if sentence.asked is not None:
        asked = _noun_phrase(sentence.asked)
    if isinstance(clause.subject, Gap):
        return [*asked, *_clause(clause)]
    if question is WHERE and clause.verb is BE:
        return [*asked, *_verb_group(clause), *_subject(clause.subject)]
    return [*asked, *words("est-ce que", (clause, "question")), *_clause(clause)]


def _clause(clause: Clause) -> list[Word]:
    time = _adverb(clause, "time", clause.time)
    return [
        *([*time, Word(",", ((clause, "comma"),))] if clause.time_first else []),
        *_subject(clause.subject),
        *_verb_group(clause),
        *_complements(clause),
        *([] if clause.time_first else time),
    ]


def _verb_group(clause: Clause) -> list[Word]:
    """Ne, clitics, verb, pas. Clitics stand before the auxiliary, but before an infinitive."""
    ne = words("ne" if clause.polarity.french else "", (clause, "polarity"))
    pas = words(clause.polarity.french, (clause, "polarity"))
    frequency = _adverb(clause, "frequency", clause.frequency)
    clitics, (finite, *rest) = _clitics(clause), _verb(clause)
    if clause.tense.modal is not None:
        return [*ne, finite, *pas, *frequency, *clitics, *rest]
    return [*ne, *clitics, finite, *pas, *frequency, *rest]


def _verb(clause: Clause) -> list[Word]:
    """One finite verb, or a finite one and the participle or the infinitive."""
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


def _participle_agreement(clause: Clause) -> Agreement:
    """With être the subject's, with avoir that of a direct object that comes before."""
    if clause.verb.french.with_etre:
        return clause.subject.agreement
    if isinstance(clause.object, Pronoun | Gap):
        return clause.object.agreement
    return Agreement()


def _clitics(clause: Clause) -> list[Word]:
    spoken: list[Word] = []
    if clause.verb.reflexive:
        spoken += words(REFLEXIVE[clause.subject.agreement.person], (clause, "verb"))
    if isinstance(clause.recipient, Pronoun):
        spoken += words(clause.recipient.word.indirect, (clause.recipient, "pronoun"))
    if isinstance(clause.object, Pronoun):
        spoken += words(clause.object.word.direct, (clause.object, "pronoun"))
    return spoken


def _complements(clause: Clause) -> list[Word]:
    spoken: list[Word] = []
    if clause.predicate is not None:
        form = clause.predicate.french[clause.subject.agreement.form]
        spoken += words(form, (clause, "predicate"))
    if isinstance(clause.object, NounPhrase | Both):
        spoken += _full(clause.object, negated=bool(clause.polarity.french))
    if isinstance(clause.recipient, NounPhrase):
        spoken += [Word("à", ((clause, "to"),)), *_full(clause.recipient)]
    if clause.adjunct is not None:
        spoken += _adjunct(clause.adjunct)
    if clause.content is not None:
        spoken += [Word("que", ((clause, "that"),)), *_clause(clause.content)]
    return spoken


def _adjunct(adjunct: Adjunct) -> list[Word]:
    preposition = words(adjunct.preposition.french, (adjunct, "preposition"))
    if isinstance(adjunct.complement, Pronoun):
        strong = adjunct.complement.word.strong
        return [*preposition, Word(strong, ((adjunct.complement, "pronoun"),))]
    return [*preposition, *_full(adjunct.complement)]


def _adverb(clause: Clause, name: str, adverb: Adverb | None) -> list[Word]:
    entries = () if adverb is None else adverb.french
    return [Word(entry, ((clause, name + label),)) for entry, label in entries]


def _subject(subject: Nominal) -> list[Word]:
    if isinstance(subject, Pronoun):
        return [Word(subject.word.subject, ((subject, "pronoun"),))]
    return [] if isinstance(subject, Gap) else _full(subject)


def _full(phrase: NounPhrase | Both, negated: bool = False) -> list[Word]:
    if isinstance(phrase, NounPhrase):
        return _noun_phrase(phrase, negated)
    conjunction = Word("et", ((phrase, "and"),))
    return [*_noun_phrase(phrase.first), conjunction, *_noun_phrase(phrase.second)]


def _noun_phrase(phrase: NounPhrase, negated: bool = False) -> list[Word]:
    noun, form = phrase.noun.french[phrase.plural], phrase.agreement.form
    spoken = _determiner(phrase, negated)
    if phrase.before is not None:
        adjective = phrase.before.french[form]
        if form == 0 and opens_with_vowel(noun):
            adjective = phrase.before.before_vowel
        spoken.append(Word(adjective, ((phrase, "before"),)))
    spoken.append(Word(noun, ((phrase, "noun"),)))
    if phrase.after is not None:
        spoken.append(Word(phrase.after.french[form], ((phrase, "after"),)))
    if phrase.owner is not None:
        spoken += [Word("de", ((phrase, "of"),)), *_noun_phrase(phrase.owner)]
    if phrase.relative is not None:
        pronoun = "qui" if isinstance(phrase.relative.subject, Gap) else "que"
        spoken += [Word(pronoun, ((phrase, "relative"),)), *_clause(phrase.relative)]
    return spoken


def _determiner(phrase: NounPhrase, negated: bool) -> list[Word]:
    """Le, la, les; des becomes de where an adjective follows: de petits chiens."""
    determiner = (negated and phrase.determiner.negated) or phrase.determiner
    article = determiner.french[phrase.agreement.form]
    if article == "des" and phrase.before is not None:
        article = "de"
    return words(article, (phrase, "determiner"))


def _elided(word: str, following: str) -> str:
    if word == "si":
        return "s'" if following in ("il", "ils") else word
    return _BEFORE_VOWEL.get(word, word) if opens_with_vowel(following) else word


def _settle(spoken: list[Word]) -> list[Word]:
    """What depends on the neighbour: l'homme, cet homme, mon école, du pain, s'il."""
    settled: list[Word] = []
    for word, following in zip(spoken, [*spoken[1:], spoken[-1]], strict=True):
        text, keys = _elided(word.text, following.text), word.keys
        if settled and (settled[-1].text, text) in _CONTRACTED:
            text = _elided(_CONTRACTED[settled[-1].text, text], following.text)
            keys = (*settled.pop().keys, *keys)
        settled.append(Word(text, keys))
    return settled
