"""The bilingual grammar: hand-written sentences for every phenomenon, and what holds for all."""

import os
import random
import re
import subprocess
import sys
from itertools import islice, pairwise

import pytest

from glassformer.data.grammar import SPLITS, AlignedPair, pairs, realise
from glassformer.data.grammar.inflection import (
    conjugation,
    ending_in_ed,
    ending_in_ing,
    ending_in_s,
    french_genders,
    french_plural,
)
from glassformer.data.grammar.lexicon import (
    ADJECTIVES,
    BE,
    NOUNS,
    PREPOSITIONS,
    SAY,
    THINK,
    VERBS,
)
from glassformer.data.grammar.sample import Sampler
from glassformer.data.grammar.splits import belongs, combinations, split_of
from glassformer.data.grammar.tree import (
    Adjunct,
    Both,
    Clause,
    Gap,
    NounPhrase,
    Pronoun,
    Sentence,
)
from glassformer.data.grammar.words import (
    AND,
    BECAUSE,
    BUT,
    CAN,
    FREQUENCIES,
    FUTURE,
    GENERIC,
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
    WHAT,
    WHEN,
    WHEN_CLAUSE,
    WHERE,
    WHICH,
    WHO,
    WHY,
    YES_NO,
    YOU,
    A,
    I,
)
from glassformer.errors import DataError

NOUN = {noun.english[0]: noun for noun in NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
VERB = {verb.english["base"][0]: verb for verb in (*VERBS, BE, THINK, SAY)}
ADVERB = {" ".join(word for word, _ in adverb.english): adverb for adverb in FREQUENCIES + TIMES}
MY, YOUR, HIS, HER, OUR, THEIR = POSSESSIVES
TWO = NUMBERS[0]


def np(noun, determiner=THE, **parts):
    """A noun phrase; adjectives by their English names, `plural=True` for more than one."""
    for place in {"before", "after"} & parts.keys():
        parts[place] = ADJECTIVE[parts[place]]
    return NounPhrase(NOUN[noun], determiner, **parts)


def clause(subject, verb, tense=PRESENT, polarity=None, **parts):
    subject = Pronoun(subject) if subject in (I, YOU, HE, SHE, WE, THEY) else subject
    for place in {"frequency", "time"} & parts.keys():
        parts[place] = ADVERB[parts[place]]
    if "predicate" in parts:
        parts["predicate"] = ADJECTIVE[parts["predicate"]]
    if polarity is not None:
        parts["polarity"] = polarity
    return Clause(subject, VERB[verb], tense, **parts)


def at(preposition, complement):
    return Adjunct(PREPOSITIONS[preposition], complement)


def relative(head, verb, tense=PRESENT, subject=None, **parts):
    """`head` with a clause in which it is the subject, or the object where a subject is given."""
    gap = Gap(head.agreement, head.noun)
    if subject is None:
        head.relative = clause(gap, verb, tense, **parts)
    else:
        head.relative = clause(subject, verb, tense, object=gap, **parts)
    return head


def which(asked, subject, verb, tense):
    gap = Gap(asked.agreement, asked.noun)
    return Sentence(clause(subject, verb, tense, object=gap), YES_NO, asked=asked)


# The tree, its English, its French, and the gloss: each French word with the English words that it
# translates, `2` on a word's second occurrence.
EXAMPLES = {
    "mute h, progressive": (
        Sentence(clause(np("man"), "sleep", PROGRESSIVE)),
        "The man is sleeping.",
        "L'homme dort.",
        "L'(The) homme(man) dort(is sleeping) .(.)",
    ),
    "aspirated h, third person": (
        Sentence(clause(np("owl", THIS, before="old"), "sleep", frequency="often")),
        "This old owl often sleeps.",
        "Ce vieux hibou dort souvent.",
        "Ce(This) vieux(old) hibou(owl) dort(sleeps) souvent(often) .(.)",
    ),
    "adjective behind the noun": (
        Sentence(clause(SHE, "buy", PAST, object=np("dress", A, after="red"))),
        "She bought a red dress.",
        "Elle a acheté une robe rouge.",
        "Elle(She) a(bought) acheté(bought) une(a) robe(dress) rouge(red) .(.)",
    ),
    "adjectives on both sides, agreement in the plural": (
        Sentence(clause(HE, "sell", object=np("car", plural=True, before="old", after="white"))),
        "He sells the old white cars.",
        "Il vend les vieilles voitures blanches.",
        "Il(He) vend(sells) les(the) vieilles(old) voitures(cars) blanches(white) .(.)",
    ),
    "beautiful before a vowel": (
        Sentence(clause(I, "see", object=np("tree", A, before="beautiful"))),
        "I see a beautiful tree.",
        "Je vois un bel arbre.",
        "Je(I) vois(see) un(a) bel(beautiful) arbre(tree) .(.)",
    ),
    "new before a vowel": (
        Sentence(clause(np("student", A, before="new"), "arrive", FUTURE, time="tomorrow")),
        "A new student will arrive tomorrow.",
        "Un nouvel étudiant arrivera demain.",
        "Un(A) nouvel(new) étudiant(student) arrivera(will arrive) demain(tomorrow) .(.)",
    ),
    "old before a vowel, this before one": (
        Sentence(
            clause(np("man", A, before="old"), "know", object=np("actress", THIS, after="French"))
        ),
        "An old man knows this French actress.",
        "Un vieil homme connaît cette actrice française.",
        "Un(An) vieil(old) homme(man) connaît(knows) cette(this) actrice(actress) "
        "française(French) .(.)",
    ),
    "old in the plural, some before an adjective": (
        Sentence(clause(np("man", A, plural=True, before="old"), "hear", object=np("tree", THIS))),
        "Some old men hear this tree.",
        "De vieux hommes entendent cet arbre.",
        "De(Some) vieux(old) hommes(men) entendent(hear) cet(this) arbre(tree) .(.)",
    ),
    "être: the participle agrees with the subject": (
        Sentence(clause(np("girl", plural=True), "go", PAST, adjunct=at("to", np("market")))),
        "The girls went to the market.",
        "Les filles sont allées au marché.",
        "Les(The) filles(girls) sont(went) allées(went) au(to the) marché(market) .(.)",
    ),
    "contraction of à, two people": (
        Sentence(
            clause(
                Both(np("king"), np("queen")),
                "give",
                PAST,
                object=np("flower", A, plural=True),
                recipient=np("child", plural=True),
            )
        ),
        "The king and the queen gave some flowers to the children.",
        "Le roi et la reine ont donné des fleurs aux enfants.",
        "Le(The) roi(king) et(and) la(the) reine(queen) ont(gave) donné(gave) des(some) "
        "fleurs(flowers) aux(to the2) enfants(children) .(.)",
    ),
    "two women and a predicate": (
        Sentence(clause(Both(np("queen"), np("sister", HER)), "be", predicate="happy")),
        "The queen and her sister are happy.",
        "La reine et sa sœur sont heureuses.",
        "La(The) reine(queen) et(and) sa(her) sœur(sister) sont(are) heureuses(happy) .(.)",
    ),
    "genitive, contraction of de": (
        Sentence(clause(np("horse", owner=np("king")), "be", predicate="sick")),
        "The king's horse is sick.",
        "Le cheval du roi est malade.",
        "Le('s) cheval(horse) du('s The) roi(king) est(is) malade(sick) .(.)",
    ),
    "of, mute h": (
        Sentence(clause(WE, "open", object=np("door", owner=np("hotel")))),
        "We open the door of the hotel.",
        "Nous ouvrons la porte de l'hôtel.",
        "Nous(We) ouvrons(open) la(the) porte(door) de(of) l'(the2) hôtel(hotel) .(.)",
    ),
    "my before a vowel": (
        Sentence(clause(np("school", MY), "be", PAST, predicate="empty")),
        "My school was empty.",
        "Mon école était vide.",
        "Mon(My) école(school) était(was) vide(empty) .(.)",
    ),
    "not, with do": (
        Sentence(clause(I, "help", polarity=NOT, object=np("uncle", THEIR))),
        "I do not help their uncle.",
        "Je n'aide pas leur oncle.",
        "Je(I) n'(do not) aide(help) pas(do not) leur(their) oncle(uncle) .(.)",
    ),
    "not in the past; a becomes de": (
        Sentence(clause(np("baker"), "buy", PAST, NOT, object=np("umbrella", A))),
        "The baker did not buy an umbrella.",
        "Le boulanger n'a pas acheté de parapluie.",
        "Le(The) boulanger(baker) n'(did not) a(did) pas(did not) acheté(buy) de(an) "
        "parapluie(umbrella) .(.)",
    ),
    "no longer; some becomes any and d'": (
        Sentence(clause(THEY, "drink", polarity=NO_LONGER, object=np("water", SOME))),
        "They no longer drink any water.",
        "Ils ne boivent plus d'eau.",
        "Ils(They) ne(no longer) boivent(drink) plus(no longer) d'(any) eau(water) .(.)",
    ),
    "never, and a clitic": (
        Sentence(clause(np("mother", YOUR), "see", PAST, NEVER, object=Pronoun(HE))),
        "Your mother never saw him.",
        "Ta mère ne l'a jamais vu.",
        "Ta(Your) mère(mother) ne(never) l'(him) a(saw) jamais(never) vu(saw) .(.)",
    ),
    "partitives": (
        Sentence(clause(YOU, "eat", PROGRESSIVE, object=np("bread", SOME, before="good"))),
        "You are eating some good bread.",
        "Tu manges du bon pain.",
        "Tu(You) manges(are eating) du(some) bon(good) pain(bread) .(.)",
    ),
    "partitive before a vowel, futur": (
        Sentence(clause(np("donkey", A), "drink", FUTURE, object=np("water", SOME))),
        "A donkey will drink some water.",
        "Un âne boira de l'eau.",
        "Un(A) âne(donkey) boira(will drink) de(some) l'(some) eau(water) .(.)",
    ),
    "a participle agrees with a clitic before it": (
        Sentence(clause(WE, "look", PAST, object=Pronoun(SHE))),
        "We looked for her.",
        "Nous l'avons cherchée.",
        "Nous(We) l'(her) avons(looked) cherchée(looked for) .(.)",
    ),
    "me": (
        Sentence(clause(np("nurse"), "wait", PROGRESSIVE, object=Pronoun(I))),
        "The nurse is waiting for me.",
        "L'infirmière m'attend.",
        "L'(The) infirmière(nurse) m'(me) attend(is waiting for) .(.)",
    ),
    "you, imparfait": (
        Sentence(clause(THEY, "listen", WAS_DOING, object=Pronoun(YOU))),
        "They were listening to you.",
        "Ils t'écoutaient.",
        "Ils(They) t'(you) écoutaient(were listening to) .(.)",
    ),
    "us": (
        Sentence(clause(np("wolf", plural=True), "follow", object=Pronoun(WE))),
        "The wolves follow us.",
        "Les loups nous suivent.",
        "Les(The) loups(wolves) nous(us) suivent(follow) .(.)",
    ),
    "to him, in the perfect": (
        Sentence(
            clause(SHE, "send", PAST, object=np("letter", TWO, plural=True), recipient=Pronoun(HE))
        ),
        "She sent him two letters.",
        "Elle lui a envoyé deux lettres.",
        "Elle(She) lui(him) a(sent) envoyé(sent) deux(two) lettres(letters) .(.)",
    ),
    "to them, and many": (
        Sentence(
            clause(HE, "bring", object=np("apple", MANY, plural=True), recipient=Pronoun(THEY))
        ),
        "He brings them many apples.",
        "Il leur apporte beaucoup de pommes.",
        "Il(He) leur(them) apporte(brings) beaucoup(many) de(many) pommes(apples) .(.)",
    ),
    "can, not, a clitic before the infinitive": (
        Sentence(clause(np("bird"), "hear", CAN, NOT, object=Pronoun(THEY))),
        "The bird cannot hear them.",
        "L'oiseau ne peut pas les entendre.",
        "L'(The) oiseau(bird) ne(cannot) peut(cannot) pas(cannot) les(them) entendre(hear) .(.)",
    ),
    "must": (
        Sentence(clause(I, "wake", MUST)),
        "I must wake up.",
        "Je dois me réveiller.",
        "Je(I) dois(must) me(wake up) réveiller(wake up) .(.)",
    ),
    "reflexive with être": (
        Sentence(clause(np("actress", plural=True), "get", PAST)),
        "The actresses got dressed.",
        "Les actrices se sont habillées.",
        "Les(The) actrices(actresses) se(got dressed) sont(got) habillées(got dressed) .(.)",
    ),
    "reflexive, elided": (
        Sentence(clause(np("sister", HIS), "get", PRESENT)),
        "His sister gets dressed.",
        "Sa sœur s'habille.",
        "Sa(His) sœur(sister) s'(gets dressed) habille(gets dressed) .(.)",
    ),
    "used to": (
        Sentence(clause(WE, "eat", USED_TO, object=np("egg", A, plural=True), time="every day")),
        "We used to eat some eggs every day.",
        "Nous mangions des œufs chaque jour.",
        "Nous(We) mangions(used to eat) des(some) œufs(eggs) chaque(every) jour(day) .(.)",
    ),
    "had is a state: imparfait": (
        Sentence(clause(HE, "have", PAST, NOT, object=np("dog", A))),
        "He did not have a dog.",
        "Il n'avait pas de chien.",
        "Il(He) n'(did not) avait(did have) pas(did not) de(a) chien(dog) .(.)",
    ),
    "in general, with no English article": (
        Sentence(clause(I, "love", object=np("horse", GENERIC, plural=True))),
        "I love horses.",
        "J'aime les chevaux.",
        "J'(I) aime(love) les() chevaux(horses) .(.)",
    ),
    "time first": (
        Sentence(
            clause(np("writer"), "arrive", PAST, time="last week", time_first=True),
        ),
        "Last week, the writer arrived.",
        "La semaine dernière, l'écrivain est arrivé.",
        "La(Last) semaine(week) dernière(Last) ,(,) l'(the) écrivain(writer) est(arrived) "
        "arrivé(arrived) .(.)",
    ),
    "yes or no, with do": (
        Sentence(clause(HE, "want", object=np("cake", THIS)), YES_NO),
        "Does he want this cake?",
        "Est-ce qu'il veut ce gâteau ?",
        "Est-ce(Does) qu'(Does) il(he) veut(want) ce(this) gâteau(cake) ?(?)",
    ),
    "yes or no in the past": (
        Sentence(
            clause(np("friend", OUR), "leave", PAST, adjunct=at("with", Pronoun(SHE))), YES_NO
        ),
        "Did our friend leave with her?",
        "Est-ce que notre ami est parti avec elle ?",
        "Est-ce(Did) que(Did) notre(our) ami(friend) est(Did) parti(leave) avec(with) elle(her) "
        "?(?)",
    ),
    "who does": (
        Sentence(clause(Gap(), "open", PAST, object=np("window")), WHO),
        "Who opened the window?",
        "Qui a ouvert la fenêtre ?",
        "Qui(Who) a(opened) ouvert(opened) la(the) fenêtre(window) ?(?)",
    ),
    "whom": (
        Sentence(clause(SHE, "hate", object=Gap()), WHO),
        "Who does she hate?",
        "Qui est-ce qu'elle déteste ?",
        "Qui(Who) est-ce(does) qu'(does) elle(she) déteste(hate) ?(?)",
    ),
    "what": (
        Sentence(clause(YOU, "write", PROGRESSIVE, object=Gap()), WHAT),
        "What are you writing?",
        "Qu'est-ce que tu écris ?",
        "Qu'(What) est-ce(are) que(are) tu(you) écris(are writing) ?(?)",
    ),
    "which: the participle agrees with what is asked for": (
        which(np("song", WHICH, plural=True), I, "forget", PAST),
        "Which songs did I forget?",
        "Quelles chansons est-ce que j'ai oubliées ?",
        "Quelles(Which) chansons(songs) est-ce(did) que(did) j'(I) ai(did) oubliées(forget) ?(?)",
    ),
    "where is": (
        Sentence(clause(np("key", plural=True), "be", PAST), WHERE),
        "Where were the keys?",
        "Où étaient les clés ?",
        "Où(Where) étaient(were) les(the) clés(keys) ?(?)",
    ),
    "when": (
        Sentence(clause(np("uncle", MY), "come", FUTURE), WHEN),
        "When will my uncle come?",
        "Quand est-ce que mon oncle viendra ?",
        "Quand(When) est-ce(will) que(will) mon(my) oncle(uncle) viendra(will come) ?(?)",
    ),
    "why": (
        Sentence(clause(np("child", plural=True), "cry", PROGRESSIVE), WHY),
        "Why are the children crying?",
        "Pourquoi est-ce que les enfants pleurent ?",
        "Pourquoi(Why) est-ce(are) que(are) les(the) enfants(children) pleurent(are crying) ?(?)",
    ),
    "relative clause, qui": (
        Sentence(
            clause(HE, "know", object=relative(np("woman"), "sing", PROGRESSIVE)),
        ),
        "He knows the woman who is singing.",
        "Il connaît la femme qui chante.",
        "Il(He) connaît(knows) la(the) femme(woman) qui(who) chante(is singing) .(.)",
    ),
    "relative clause, que: the participle agrees with its head": (
        Sentence(clause(relative(np("letter"), "write", PAST, subject=HE), "be", predicate="long")),
        "The letter that he wrote is long.",
        "La lettre qu'il a écrite est longue.",
        "La(The) lettre(letter) qu'(that) il(he) a(wrote) écrite(wrote) est(is) longue(long) .(.)",
    ),
    "prepositions of several words": (
        Sentence(clause(np("hat"), "be", adjunct=at("in front of", np("tree", A)))),
        "The hat is in front of a tree.",
        "Le chapeau est devant un arbre.",
        "Le(The) chapeau(hat) est(is) devant(in front of) un(a) arbre(tree) .(.)",
    ),
    "près de, elided and contracted": (
        Sentence(
            clause(np("teacher"), "work", adjunct=at("near", np("church", A))),
            link=BUT,
            second=clause(I, "sleep", adjunct=at("near", np("castle"))),
        ),
        "The teacher works near a church but I sleep near the castle.",
        "Le professeur travaille près d'une église mais je dors près du château.",
        "Le(The) professeur(teacher) travaille(works) près(near) d'(near) une(a) église(church) "
        "mais(but) je(I) dors(sleep) près(near2) du(near2 the) château(castle) .(.)",
    ),
    "près de swallows des": (
        Sentence(clause(HE, "work", PAST, adjunct=at("near", np("church", A, plural=True)))),
        "He worked near some churches.",
        "Il a travaillé près d'églises.",
        "Il(He) a(worked) travaillé(worked) près(near) d'(near some) églises(churches) .(.)",
    ),
    "because": (
        Sentence(
            clause(HE, "stay", PAST, adjunct=at("in", np("house"))),
            link=BECAUSE,
            second=clause(HE, "be", PAST, predicate="tired"),
        ),
        "He stayed in the house because he was tired.",
        "Il est resté dans la maison parce qu'il était fatigué.",
        "Il(He) est(stayed) resté(stayed) dans(in) la(the) maison(house) parce(because) "
        "qu'(because) il(he) était(was) fatigué(tired) .(.)",
    ),
    "if, elided": (
        Sentence(clause(THEY, "be", predicate="sad"), link=IF, second=clause(I, "dance", FUTURE)),
        "If they are sad, I will dance.",
        "S'ils sont tristes, je danserai.",
        "S'(If) ils(they) sont(are) tristes(sad) ,(,) je(I) danserai(will dance) .(.)",
    ),
    "if, not elided before elle": (
        Sentence(
            clause(SHE, "come", adjunct=at("from", np("school"))),
            link=IF,
            second=clause(SHE, "run", FUTURE),
        ),
        "If she comes from the school, she will run.",
        "Si elle vient de l'école, elle courra.",
        "Si(If) elle(she) vient(comes) de(from) l'(the) école(school) ,(,) elle(she2) "
        "courra(will run) .(.)",
    ),
    "when, before a clause": (
        Sentence(
            clause(np("father", MY), "fall", PAST),
            link=WHEN_CLAUSE,
            second=clause(WE, "run", WAS_DOING),
        ),
        "When my father fell, we were running.",
        "Quand mon père est tombé, nous courions.",
        "Quand(When) mon(my) père(father) est(fell) tombé(fell) ,(,) nous(we) "
        "courions(were running) .(.)",
    ),
    "that, in the past": (
        Sentence(
            clause(
                SHE,
                "say",
                PAST,
                content=clause(np("mouse", plural=True), "eat", WAS_DOING, object=np("cheese")),
            ),
        ),
        "She said that the mice were eating the cheese.",
        "Elle a dit que les souris mangeaient le fromage.",
        "Elle(She) a(said) dit(said) que(that) les(the) souris(mice) mangeaient(were eating) "
        "le(the2) fromage(cheese) .(.)",
    ),
    "and between clauses": (
        Sentence(clause(np("boy"), "hurry", PAST), link=AND, second=clause(SHE, "leave", PAST)),
        "The boy hurried and she left.",
        "Le garçon s'est dépêché et elle est partie.",
        "Le(The) garçon(boy) s'(hurried) est(hurried) dépêché(hurried) et(and) elle(she) "
        "est(left) partie(left) .(.)",
    ),
}


def read_gloss(gloss: str, source_words: tuple[str, ...]):
    """The French words of a gloss and its alignment with the English ones."""
    entries = re.findall(r"(\S+?)\(([^)]*)\)", gloss)
    alignment = set()
    for j, (_, english) in enumerate(entries):
        for word, occurrence in re.findall(r"(\S+?)(\d?)(?:\s|$)", english):
            places = [i for i, other in enumerate(source_words) if other == word]
            alignment.add((places[int(occurrence or 1) - 1], j))
    return tuple(french for french, _ in entries), alignment


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_a_tree_has_the_expected_english_and_french(example):
    tree, source, target, gloss = example
    pair = realise(tree)
    assert (pair.source, pair.target) == (source, target)
    target_words, alignment = read_gloss(gloss, pair.source_words)
    assert pair.target_words == target_words
    assert pair.alignment == alignment


@pytest.mark.parametrize(
    ("infinitive", "tense", "forms"),
    [
        ("manger", "present", "mange manges mange mangeons mangent"),
        ("manger", "imperfect", "mangeais mangeais mangeait mangions mangeaient"),
        ("choisir", "imperfect", "choisissais choisissais choisissait choisissions choisissaient"),
        ("vendre", "present", "vends vends vend vendons vendent"),
        ("vendre", "future", "vendrai vendras vendra vendrons vendront"),
        ("être", "imperfect", "étais étais était étions étaient"),
        ("avoir", "future", "aurai auras aura aurons auront"),
        ("acheter", "future", "achèterai achèteras achètera achèterons achèteront"),
        ("boire", "imperfect", "buvais buvais buvait buvions buvaient"),
        ("voir", "future", "verrai verras verra verrons verront"),
        ("aller", "present", "vais vas va allons vont"),
    ],
)
def test_french_verbs_are_conjugated(infinitive, tense, forms):
    assert conjugation(infinitive).finite[tense] == tuple(forms.split())


@pytest.mark.parametrize(
    ("rule", "word", "form"),
    [
        (ending_in_s, "church", "churches"),
        (ending_in_s, "library", "libraries"),
        (ending_in_s, "key", "keys"),
        (ending_in_ed, "carry", "carried"),
        (ending_in_ed, "close", "closed"),
        (ending_in_ing, "run", "running"),
        (ending_in_ing, "write", "writing"),
        (ending_in_ing, "look", "looking"),
        (french_plural, "château", "châteaux"),
        (french_plural, "journal", "journaux"),
        (french_plural, "souris", "souris"),
        (french_genders, "dangereux", ("dangereux", "dangereuse", "dangereux", "dangereuses")),
        (french_genders, "cher", ("cher", "chère", "chers", "chères")),
        (french_genders, "italien", ("italien", "italienne", "italiens", "italiennes")),
    ],
)
def test_words_are_inflected(rule, word, form):
    assert rule(word) == form


# What holds for all sentences

MANY_PAIRS = 100_000


@pytest.fixture(scope="module")
def train() -> list[AlignedPair]:
    return list(pairs("train", MANY_PAIRS))


@pytest.fixture(scope="module")
def held_out() -> dict[str, list[AlignedPair]]:
    return {split: list(pairs(split, 2_000)) for split in ("valid", "test")}


def test_training_has_a_hundred_thousand_distinct_pairs(train):
    assert len({(pair.source, pair.target) for pair in train}) == MANY_PAIRS


def test_an_english_sentence_has_one_translation_and_one_alignment(train):
    """Drawn again from another seed, before anything is left out as seen."""
    sampler, spoken = Sampler("any"), {pair.source: pair for pair in train}
    drawn = [realise(sampler.sentence()) for _ in range(30_000)]
    assert all(spoken.setdefault(pair.source, pair) == pair for pair in drawn)
    assert len(spoken) < MANY_PAIRS + len(drawn), "none came twice, so nothing was compared"


def check_words_in_text(words: tuple[str, ...], text: str) -> None:
    end = 0
    for word in words:
        start = text.index(word, end)
        assert text[end:start] in ("", " ")
        end = start + len(word)
    assert end == len(text)


def test_words_are_in_the_order_of_the_text_with_spaces_between(train):
    for pair in train[:20_000]:
        check_words_in_text(pair.source_words, pair.source)
        check_words_in_text(pair.target_words, pair.target)


def test_sentences_are_capitalised_and_punctuated(train):
    for pair in train[:50_000]:
        assert pair.source[0].isupper() and pair.target[0].isupper()
        assert pair.source[-1] == pair.target[-1] and pair.source[-1] in ".?"
        assert pair.target.endswith(" ?") == (pair.source[-1] == "?")
        assert 3 <= len(pair.source_words) <= 14


def test_all_words_are_aligned_but_articles_that_english_leaves_out(train):
    for pair in train[:50_000]:
        sources = {i for i, _ in pair.alignment}
        targets = {j for _, j in pair.alignment}
        assert sources == set(range(len(pair.source_words)))
        unaligned = {w for j, w in enumerate(pair.target_words) if j not in targets}
        assert targets <= set(range(len(pair.target_words)))
        assert unaligned <= {"le", "la", "l'", "les"}
        if unaligned:
            assert re.search(r"\b(lov|hat)", pair.source)


VOWEL = "[aàâeéèêiîoôuœ]|h(?!iboux?\\b)"
WRONG = [
    rf"\b(le|la|je|me|te|se|ne|de|que|ce|ma|ta|sa) ({VOWEL})",
    rf"\b(un|le|ce|[mts]on|notre|leur|quel) (beau|nouveau|vieux) ({VOWEL})",
    r"\b(de les?|à les?|de des|de du|de de)\b|d'(des|de|du)\b",
    r"\bsi ils?\b",
    r"\b[ldnjmts]' ",
    r"l'hibou|d'hibou|cet hibou|vieil hibou",
    r"\b(une|la|cette|ma|ta|sa|quelle) (petit|grand|vieux|beau|nouveau|bon|joli|mauvais|long) ",
    r"\b(un|le|ce|quel) (petite|grande|vieille|belle|nouvelle|bonne|jolie|longue) ",
    r"\b(les|ces|mes|tes|ses|nos|leurs|deux|trois|dix) (petite?|grande?|bonne|vieille|belle) ",
    r"\belle (est|s'est) \w+[éiu]\b",
    r"\bils (sont|se sont) \w+[éiu]e?\b",
    r"\b(\w+) \1\b(?<!nous nous)",
    r"  | [.,]|[^ ]\?",
]


@pytest.mark.parametrize("wrong", WRONG)
def test_no_sentence_has_bad_french(train, wrong):
    pattern = re.compile(wrong, re.IGNORECASE)
    found = [pair.target for pair in train[:50_000] if pattern.search(pair.target)]
    assert not found, found[:5]


@pytest.mark.parametrize(
    "wrong", [r"\ba [aeiou]", r"\ban [^aeiou]", r"^(he|she) (do|have|are|were)\b", r"\bcan not\b"]
)
def test_no_sentence_has_bad_english(train, wrong):
    pattern = re.compile(wrong, re.IGNORECASE)
    found = [pair.source for pair in train[:50_000] if pattern.search(pair.source)]
    assert not found, found[:5]


def test_some_before_an_adjective_and_a_plural_is_de(train):
    before = {adjective.english for adjective in ADJECTIVES if adjective.precedes}
    plurals = {noun.english[1] for noun in NOUNS}
    found = 0
    for pair in train[:50_000]:
        for i, (some, adjective) in enumerate(pairwise(pair.source_words)):
            nouns = plurals & {*pair.source_words[i + 2 : i + 4]}
            if some.lower() == "some" and adjective in before and nouns:
                spoken = {pair.target_words[j].lower() for k, j in pair.alignment if k == i}
                found += 1
                assert spoken == {"de"}, pair
    assert found > 30


# Splits


def bigrams(sentences: list[AlignedPair]) -> set[tuple[str, ...]]:
    return {two for pair in sentences for two in pairwise(w.lower() for w in pair.source_words)}


def test_held_out_adjectives_and_nouns_do_not_cooccur_in_training(train, held_out):
    """Read off the English text, where an adjective stands before its noun."""
    seen = bigrams(train)
    for split, sentences in held_out.items():
        kept = {
            (adjective.english.lower(), form)
            for adjective in ADJECTIVES
            for noun in adjective.nouns
            for form in noun.english
            if split_of((adjective, noun)) == split
        }
        assert kept and not kept & seen
        assert len(kept & bigrams(sentences)) > 10


def test_only_trees_of_other_splits_contain_held_out_combinations():
    for split in SPLITS:
        sampler = Sampler(f"trees {split}")
        trees = (sampler.sentence() for _ in range(20_000))
        for tree in islice((tree for tree in trees if belongs(tree, split)), 1_000):
            splits = {split_of(combination) for combination in combinations(tree)}
            assert splits <= {"train", split}
            assert split == "train" or split in splits


def test_every_verb_and_adjective_keeps_most_of_its_nouns_for_training():
    for word in (*VERBS, *ADJECTIVES):
        nouns = word.nouns if word in ADJECTIVES else word.objects or word.subjects
        kept = [noun for noun in nouns if split_of((word, noun)) == "train"]
        assert len(kept) > len(nouns) / 2


def test_every_word_of_the_other_splits_occurs_in_training(train, held_out):
    for side in ("source_words", "target_words"):
        known = {word.lower() for pair in train for word in getattr(pair, side)}
        for sentences in held_out.values():
            assert {word.lower() for pair in sentences for word in getattr(pair, side)} <= known


def test_no_sentence_is_in_two_splits(train, held_out):
    valid, test = ({pair.source for pair in held_out[split]} for split in ("valid", "test"))
    known = {pair.source for pair in train}
    assert not known & valid and not known & test and not valid & test


# Determinism

PRINT = """
from glassformer.data.grammar import pairs
for pair in pairs("test", 50, seed=3):
    print(pair.source, pair.target, sorted(pair.alignment))
"""


def test_pairs_do_not_depend_on_the_hash_seed():
    def printed(hash_seed: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", PRINT],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    assert printed("1") == printed("2") != ""


def test_a_seed_gives_the_same_pairs_and_another_seed_others():
    first, again, other = (list(pairs("train", 200, seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_a_longer_draw_begins_with_a_shorter_one():
    assert list(pairs("valid", 50)) == list(islice(pairs("valid", 80), 50))


def test_the_global_random_state_is_left_alone():
    random.seed(1)
    expected = random.random()
    random.seed(1)
    list(pairs("train", 20))
    assert random.random() == expected


def test_an_unknown_split_is_refused_at_once():
    with pytest.raises(DataError, match="Unknown split 'dev'") as error:
        pairs("dev", 1)
    assert "train, valid, test" in error.value.why
