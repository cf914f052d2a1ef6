"""Random syntax trees under the constraints of `usage`."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from glassformer.data.grammar import tree, usage, words
from glassformer.data.grammar.lexicon import ADJECTIVES, BE, SAY, THINK

T = TypeVar("T")

_FEW_PLURALS = 0.08  # probability of a plural among places and companions


class Sampler:
    """A sampler of sentences, the same ones for a seed on every machine.

    Only `Random.random` is used: Python keeps its sequence stable, and that of no other method.
    A "rich" clause may have relative clauses, owners and expressions of time.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def sentence(self) -> tree.Sentence:
        return self._pick(_PATTERNS)(self)

    def _pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def _chance(self, probability: float) -> bool:
        return self._random() < probability

    # Sentences

    def _statement(self) -> tree.Sentence:
        tense = self._pick(usage.TENSES)
        clause = self._clause(self._pick(usage.VERBS_IN[tense]), tense, rich=True)
        clause.time_first = clause.time is not None and self._chance(0.4)
        return tree.Sentence(clause)

    def _yes_or_no(self) -> tree.Sentence:
        tense = self._pick(usage.TENSES_OF_QUESTIONS)
        return self._asked(words.YES_NO, self._pick(usage.VERBS_IN[tense]), tense, rich=True)

    def _who_does(self) -> tree.Sentence:
        tense = self._pick(usage.TENSES_OF_QUESTIONS)
        verb = self._pick(usage.VERBS_IN[tense])
        return tree.Sentence(self._clause(verb, tense, words.YES, tree.Gap(), rich=True), words.WHO)

    def _whom_or_what(self) -> tree.Sentence:
        tense = self._pick(usage.TENSES_OF_RELATIVES)
        verb = self._pick([v for v in usage.VERBS_IN[tense] if v.objects])
        only_people = verb.objects[-1].kind in tree.PEOPLE
        whom = only_people or (usage.concerns_people(verb.objects) and self._chance(0.5))
        return self._asked(words.WHO if whom else words.WHAT, verb, tense, object=tree.Gap())

    def _which(self) -> tree.Sentence:
        tense = self._pick(usage.TENSES_OF_RELATIVES)
        verb = self._pick([v for v in usage.VERBS_IN[tense] if v.objects])
        nouns = [noun for noun in verb.objects if noun.kind not in usage.SINGULAR_ONLY]
        asked = self._phrase(nouns or verb.objects, known=True)
        asked.determiner = words.WHICH
        sentence = self._asked(
            words.YES_NO, verb, tense, object=tree.Gap(asked.agreement, asked.noun)
        )
        sentence.asked = asked
        return sentence

    def _where(self) -> tree.Sentence:
        tense = self._pick((words.PROGRESSIVE, words.PAST, words.FUTURE))
        verb = self._pick([v for v in usage.VERBS_IN[tense] if {*v.prepositions} & usage.PLACES])
        return self._asked(words.WHERE, verb, tense, placed=False)

    def _where_is(self) -> tree.Sentence:
        nouns, _ = self._pick(usage.PLACED)
        subject = self._phrase(nouns, known=True, rich=True)
        return tree.Sentence(
            tree.Clause(subject, BE, self._pick((words.PRESENT, words.PAST))), words.WHERE
        )

    def _when(self) -> tree.Sentence:
        tense = self._pick((words.PAST, words.FUTURE))
        return self._asked(words.WHEN, self._pick(usage.DEEDS_IN[tense]), tense)

    def _why(self) -> tree.Sentence:
        tense = self._pick((words.PRESENT, words.PROGRESSIVE, words.PAST))
        return self._asked(words.WHY, self._pick(usage.VERBS_IN[tense]), tense)

    def _asked(
        self,
        question: words.Question,
        verb: words.Verb,
        tense: words.Tense,
        object: tree.Gap | None = None,
        rich: bool = False,
        placed: bool = True,
    ) -> tree.Sentence:
        subject = None if verb is BE else self._subject(verb.subjects, known=True, rich=rich)
        return tree.Sentence(
            self._clause(verb, tense, words.YES, subject, object, rich, placed), question
        )

    def _linked(self) -> tree.Sentence:
        link, first_tense, second_tense = self._pick(usage.LINKS)
        verb = self._pick((usage.VERBS_IN if link is words.IF else usage.DEEDS_IN)[first_tense])
        subject = self._subject(usage.PERSONS, known=True, rich=False) if verb is BE else None
        polarity = words.YES if link is words.WHEN_CLAUSE else self._pick(usage.MOSTLY_YES)
        first = self._clause(verb, first_tense, polarity, subject)
        verb = BE if link is words.BECAUSE else self._pick(usage.DEEDS_IN[second_tense])
        echoes = link is words.BECAUSE or (link is words.IF and self._chance(0.5))
        subject = self._anaphor(first.subject) if echoes else None
        second = self._clause(verb, second_tense, self._pick(usage.MOSTLY_YES), subject)
        return tree.Sentence(first, link=link, second=second)

    def _reported(self) -> tree.Sentence:
        tense, content_tense = self._pick(usage.REPORTS)
        clause = self._clause(self._pick((THINK, SAY)), tense, words.YES)
        clause.content = self._clause(self._pick(usage.VERBS_IN[content_tense]), content_tense)
        return tree.Sentence(clause)

    # Clauses

    def _clause(
        self,
        verb: words.Verb,
        tense: words.Tense,
        polarity: words.Polarity | None = None,
        subject: tree.Nominal | None = None,
        object: tree.Gap | None = None,
        rich: bool = False,
        placed: bool = True,
    ) -> tree.Clause:
        """Return a clause with what the verb requires and some of what it allows, unless given."""
        polarity = polarity or self._pick(usage.POLARITIES[verb.aspect][tense])
        if verb is BE:
            return self._being(tense, polarity, subject, rich)
        subject = subject or self._subject(verb.subjects, polarity is not words.YES, rich)
        if (
            isinstance(subject, tree.NounPhrase)
            and subject.relative
            and subject.relative.verb is verb
        ):
            subject.relative = None  # the man who sings sings
        clause = tree.Clause(subject, verb, tense, polarity)
        if verb.recipients:
            clause.recipient = self._recipient(subject, verb.recipients)
        if verb.objects:
            clause.object = object or self._object(clause, rich)
        if isinstance(clause.object, tree.NounPhrase) and clause.object.relative:
            return clause  # a later phrase would attach to the relative clause
        if placed and verb.prepositions:
            self._add_adjunct(clause, 0.35 if rich else 0.1)
        if rich:
            self._add_adverb(clause)
        return clause

    def _being(
        self, tense: words.Tense, polarity: words.Polarity, subject: tree.Nominal | None, rich: bool
    ) -> tree.Clause:
        """Return a clause with "be": tired, or in the garden."""
        if subject is None and self._chance(0.3):
            nouns, prepositions = self._pick(usage.PLACED)
            subject, preposition = self._subject(nouns, True, rich), self._pick(prepositions)
            place = tree.Adjunct(
                preposition, self._phrase(preposition.nouns, True, plurals=_FEW_PLURALS)
            )
            return tree.Clause(subject, BE, tense, polarity, adjunct=place)
        if isinstance(subject, tree.Gap) and subject.noun is not None:
            predicate = self._pick(usage.ADJECTIVES_OF[subject.noun])
        elif subject is not None:
            predicate = self._pick(usage.FEELINGS)
        else:
            lasting = tense is not words.FUTURE and polarity in (words.YES, words.NOT)
            predicate = self._pick(ADJECTIVES if lasting else usage.PASSING)
            subject = self._subject(predicate.nouns, True, rich, described=True)
        return tree.Clause(subject, BE, tense, polarity, predicate=predicate)

    def _add_adjunct(self, clause: tree.Clause, probability: float) -> None:
        if clause.verb.needs_place or self._chance(probability):
            preposition = self._pick(clause.verb.prepositions)
            clause.adjunct = tree.Adjunct(preposition, self._complement(clause, preposition))

    def _complement(
        self, clause: tree.Clause, preposition: words.Preposition
    ) -> tree.NounPhrase | tree.Pronoun:
        if usage.concerns_people(preposition.nouns) and self._chance(0.5):
            return self._other_pronoun(clause.subject)
        return self._phrase(preposition.nouns, known=self._chance(0.7), plurals=_FEW_PLURALS)

    def _add_adverb(self, clause: tree.Clause) -> None:
        """Add a frequency or a time, except beside "never" and "no longer"."""
        if clause.verb.aspect == "state":
            return
        frequencies, times = usage.FREQUENCIES_IN[clause.tense], usage.TIMES_IN[clause.tense]
        if frequencies and clause.polarity is words.YES and self._chance(0.2):
            clause.frequency = self._pick(frequencies)
        elif times and clause.polarity in (words.YES, words.NOT) and self._chance(0.25):
            clause.time = self._pick(times)

    # Subjects, objects, recipients

    def _subject(
        self, nouns: Sequence[words.Noun], known: bool, rich: bool, described: bool = False
    ) -> tree.Nominal:
        if usage.concerns_people(nouns) and self._chance(0.3):
            return tree.Pronoun(self._pick(usage.PRONOUNS))
        if self._chance(0.07):
            return self._both(nouns)
        return self._phrase(nouns, known, rich, described)

    def _anaphor(self, subject: tree.Nominal) -> tree.Pronoun:
        """Return the pronoun of a subject; feminine plurals have none, so any pronoun is drawn."""
        return tree.Pronoun(usage.ANAPHORS.get(subject.agreement) or self._pick(usage.PRONOUNS))

    def _other_pronoun(self, subject: tree.Nominal) -> tree.Pronoun:
        others = usage.OTHERS[subject.word] if isinstance(subject, tree.Pronoun) else usage.PRONOUNS
        return tree.Pronoun(self._pick(others))

    def _both(self, nouns: Sequence[words.Noun]) -> tree.Nominal:
        first, second = (self._phrase(nouns, known=True, described=True) for _ in range(2))
        return first if first.noun is second.noun else tree.Both(first, second)

    def _object(self, clause: tree.Clause, rich: bool) -> tree.Nominal:
        nouns, is_negated = clause.verb.objects, clause.polarity is not words.YES
        if self._chance(0.2) and not isinstance(clause.recipient, tree.Pronoun):
            if usage.concerns_people(nouns):
                return self._other_pronoun(clause.subject)
            if nouns[0].kind not in usage.UNCOUNTED:
                return tree.Pronoun(words.THEY)
        if clause.verb in usage.LIKING:
            return self._liked(nouns, rich and not is_negated)
        if not is_negated and self._chance(0.05):
            return self._both(nouns)
        # After a negated indefinite a relative clause needs the subjunctive, and a recipient after
        # a relative clause would attach to it.
        plain = is_negated or isinstance(clause.recipient, tree.NounPhrase)
        return self._phrase(nouns, rich=rich and not plain)

    def _liked(self, nouns: Sequence[words.Noun], rich: bool) -> tree.NounPhrase:
        """Return an object of love or hate: cats in general or this cat, not some cats."""
        if self._chance(0.6):
            return self._phrase(nouns, known=True, rich=rich)
        noun = self._pick([noun for noun in nouns if noun.kind not in usage.FAMILY])
        return tree.NounPhrase(noun, words.GENERIC, plural=noun.kind not in usage.UNCOUNTED)

    def _recipient(
        self, subject: tree.Nominal, nouns: Sequence[words.Noun]
    ) -> tree.NounPhrase | tree.Pronoun:
        if self._chance(0.5):
            return self._other_pronoun(subject)
        return self._phrase(nouns, known=self._chance(0.6))

    # words.Noun phrases

    def _phrase(
        self,
        nouns: Sequence[words.Noun],
        known: bool = False,
        rich: bool = False,
        described: bool = False,
        plurals: float = 0.3,
    ) -> tree.NounPhrase:
        """Return a noun with determiner, adjectives, owner and relative clause.

        A `described` noun gets no adjective.
        """
        noun = self._pick(nouns)
        plural = noun.kind not in usage.SINGULAR_ONLY and self._chance(plurals)
        phrase = tree.NounPhrase(noun, self._pick(usage.determiners(noun, plural, known)), plural)
        if noun in usage.OWNED and self._chance(0.2):
            phrase.determiner = self._pick(words.POSSESSIVES)
            if rich and self._chance(0.5):
                phrase.determiner, phrase.owner = words.THE, self._owner(noun)
        if not described and usage.ADJECTIVES_OF[noun] and self._chance(0.35 if rich else 0.15):
            self._add_adjectives(phrase)
        if rich and noun.kind not in usage.FAMILY and self._chance(0.1):
            phrase.relative = self._relative(phrase)
        return phrase

    def _owner(self, noun: words.Noun) -> tree.NounPhrase:
        owners = usage.WHOLES if noun.kind == "part" else usage.OWNERS
        return self._phrase(owners, known=True, plurals=0.0)

    def _add_adjectives(self, phrase: tree.NounPhrase) -> None:
        adjective = self._pick(usage.ADJECTIVES_OF[phrase.noun])
        if not adjective.precedes:
            phrase.after = adjective
            return
        phrase.before = adjective
        if usage.COLOURS_OF[phrase.noun] and self._chance(0.25):
            phrase.after = self._pick(usage.COLOURS_OF[phrase.noun])

    def _relative(self, phrase: tree.NounPhrase) -> tree.Clause | None:
        """Return a relative clause (who is tired, who sees me, whom I see), or None."""
        noun, tense = phrase.noun, self._pick(usage.TENSES_OF_RELATIVES)
        gap = tree.Gap(phrase.agreement, noun)
        by, to = usage.DONE_BY[noun, tense], usage.DONE_TO[noun, tense]
        if (
            not phrase.before
            and not phrase.after
            and usage.ADJECTIVES_OF[noun]
            and self._chance(0.2)
        ):
            return self._being(
                self._pick((words.PRESENT, words.PAST)),
                self._pick(usage.MOSTLY_YES),
                gap,
                rich=False,
            )
        if by and self._chance(0.5):
            return self._clause(self._pick(by), tense, subject=gap)
        return self._clause(self._pick(to), tense, object=gap) if to else None


_PATTERNS: Sequence[Callable[[Sampler], tree.Sentence]] = (
    *(Sampler._statement,) * 22,
    *(Sampler._yes_or_no,) * 4,
    *(Sampler._who_does,) * 2,
    *(Sampler._whom_or_what,) * 2,
    *(Sampler._which,) * 3,
    *(Sampler._linked,) * 5,
    *(Sampler._reported,) * 2,
    *(Sampler._where, Sampler._where_is, Sampler._when, Sampler._why),
)
