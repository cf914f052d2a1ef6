"""Tables of the open word classes: nouns, prepositions, adjectives, verbs.

A selection lists the nouns that a word goes with: kinds of nouns, groups of kinds, single nouns,
and `-` before excluded ones ("big man" would be "grand homme", a great man).
"""

import re

from glassformer.data.grammar.inflection import (
    conjugation,
    ending_in_s,
    english_forms,
    french_genders,
    french_plural,
    same,
)
from glassformer.data.grammar.words import IS, WAS, Adjective, Noun, Preposition, Verb

# kind: English = French, gender; an irregular plural follows a slash.
_NOUNS = """
human:     man/men = homme m, woman/women = femme f, boy = garçon m, girl = fille f
person:    child/children = enfant m, king = roi m, queen = reine f, doctor = médecin m,
           teacher = professeur m, student = étudiant m, actress = actrice f,
           nurse = infirmière f, baker = boulanger m, writer = écrivain m, friend = ami m
kin:       brother = frère m, sister = sœur f, uncle = oncle m
parent:    mother = mère f, father = père m
animal:    cat = chat m, dog = chien m, horse = cheval m, bird = oiseau m,
           mouse/mice = souris f, owl = hibou/hiboux m, wolf/wolves = loup m, donkey = âne m
text:      book = livre m, letter = lettre f
tale:      story = histoire f, song = chanson f
garment:   hat = chapeau m, coat = manteau m, dress = robe f, shoe = chaussure f
vehicle:   car = voiture f, bicycle = vélo m
furniture: table = table f, chair = chaise f
object:    key = clé f, box = boîte f, knife/knives = couteau m, umbrella = parapluie m,
           gift = cadeau m
plant:     flower = fleur f, tree = arbre m
food:      apple = pomme f, cake = gâteau m, egg = œuf m
staple:    bread = pain m, cheese = fromage m, meat = viande f
drink:     water = eau f, milk = lait m, coffee = café m
building:  house = maison f, castle = château m, church = église f, school = école f,
           hospital = hôpital m, hotel = hôtel m, station = gare f
place:     garden = jardin m, market = marché m, street = rue f, kitchen = cuisine f
part:      door = porte f, window = fenêtre f
"""

_GROUPS = {
    "people": "human person kin parent",
    "animate": "human person kin parent animal",
    "portable": "text garment object food",
    "wares": "garment vehicle furniture object",
}

# English | French | nouns that may follow
_PREPOSITIONS = """
in          | dans     | house castle church hotel kitchen garden street
behind      | derrière | building tree
in front of | devant   | building tree door window
near        | près de  | building tree window garden market
at          | à        | market station school hospital castle
to          | à        | market station school hospital castle church
from        | de       | market station school hospital castle church
with        | avec     | people
without     | sans     | people
for         | pour     | people
on          | sur      | table chair
under       | sous     | table chair tree
"""

# English | French masculine, irregular feminine, form before a vowel | nouns
_ADJECTIVES_BEFORE = """
small     | petit                   | boy girl child animal wares plant building garden window
big       | grand                   | animal wares plant building garden kitchen window -school
old       | vieux vieille vieil     | man woman person animal wares text building -child
young     | jeune                   | human person horse dog cat -child
beautiful | beau belle bel          | man woman queen actress horse bird garment tale castle house
                                      church garden flower tree
new       | nouveau nouvelle nouvel | doctor teacher student king queen baker friend wares text
                                      building
good      | bon bonne               | king doctor teacher student baker friend book tale staple
                                      coffee cake
bad       | mauvais                 | king teacher student writer tale book coffee cheese
long      | long longue             | letter tale dress coat street table book
"""

_ADJECTIVES_AFTER = """
red         | rouge         | wares flower apple door
green       | vert          | wares apple door window
blue        | bleu          | wares flower bird door
white       | blanc blanche | wares cat dog horse bird mouse flower owl
black       | noir          | wares cat dog horse bird wolf donkey
French      | français      | man woman king queen doctor teacher student actress nurse writer
                              text tale car cheese
Italian     | italien       | man woman doctor teacher student actress nurse writer text tale car
                              cheese coffee
expensive   | cher          | wares house castle book cheese
dirty       | sale          | garment vehicle table chair knife window kitchen street dog
empty       | vide          | box house castle church hotel street school
tired       | fatigué       | people dog horse donkey
happy       | heureux       | people dog
sad         | triste        | people tale dog donkey
rich        | riche         | people -child
sick        | malade        | people animal
intelligent | intelligent   | people dog horse bird mouse owl
interesting | intéressant   | text tale
strange     | étrange       | text tale man woman person box house castle bird hat
dangerous   | dangereux     | wolf dog street knife man horse
"""

# English, an irregular past after a slash | French | aspect | subjects | objects | adjuncts,
# with `!` where the verb requires one
_VERBS = """
sleep/slept     | dormir       | activity   | animate | | in behind near
cry             | pleurer      | activity   | people | | in behind with
work            | travailler   | activity   | people | | in at with near
sing/sang       | chanter      | activity   | people bird | | in behind with near
dance           | danser       | activity   | people | | in with without
run/ran         | courir       | activity   | animate -bird -owl | | in behind
arrive          | arriver      | activity   | people | | at with
leave/left      | partir       | activity   | people | | with without
fall/fell       | tomber       | event      | animate object text -bird -owl | | in in_front_of
come/came       | venir        | activity   | people | | from! with!
go/went         | aller        | activity   | people | | to!
stay            | rester       | activity   | people cat dog | | in! near! with!
wake/woke up    | se réveiller | activity   | people cat dog bird owl | |
hurry           | se dépêcher  | activity   | people | |
get/got dressed | se habiller  | activity   | people | |
eat/ate         | manger       | activity   | people dog mouse | food staple | in with
drink/drank     | boire        | activity   | people | drink | in with
see/saw         | voir         | perception | animate | animate building wares text tree
                                            | in behind near
hear/heard      | entendre     | perception | animate | animate song vehicle -mouse | in behind
find/found      | trouver      | perception | people dog | portable animal bicycle child
                                            | in under near
lose/lost       | perdre       | event      | people | key hat umbrella shoe book letter cat dog
                                            bicycle knife gift | in at
forget/forgot   | oublier      | event      | people | key hat umbrella coat book letter gift tale
                                            box |
love            | aimer        | state      | people | animate text tale food staple drink garden
                                            castle house car |
hate            | détester     | state      | people | animate text tale food staple drink hospital
                                            hat dress |
know/knew       | connaître    | state      | people | people tale book street castle |
want            | vouloir      | state      | people | wares food staple drink cat dog horse bird
                                            book flower |
have/had        | avoir        | state      | people | wares food staple cat dog horse bird
                                            donkey text flower house castle garden |
buy/bought      | acheter      | activity   | people | wares food staple book horse
                                            house flower | at for with
sell/sold       | vendre       | activity   | people | wares food staple book horse
                                            house donkey | at in
choose/chose    | choisir      | activity   | people | garment vehicle object book song cat dog
                                            horse flower cake table | for with
look for        | chercher     | activity   | people dog | animate portable bicycle -owl
                                            | in behind near under
listen to       | écouter      | activity   | people | person kin parent tale bird owl | in with
wait for        | attendre     | activity   | people | people letter | in at near in_front_of
open            | ouvrir       | activity   | people | door window box letter book umbrella gift |
follow          | suivre       | activity   | animate | animate vehicle -mouse | in
write/wrote     | écrire       | activity   | people -child | book letter tale | in for
help            | aider        | activity   | people | people | in
"""

# The same, with a recipient.
_GIVING = """
give/gave       | donner       | activity   | people | text garment object food cat dog flower |
send/sent       | envoyer      | activity   | people | letter book gift flower |
show            | montrer      | activity   | people | text wares animal house garden church
                                            flower |
bring/brought   | apporter     | activity   | people | food staple drink chair key umbrella hat coat
                                            flower gift |
"""


def _rows(table: str) -> list[list[str]]:
    """Return the rows of a table in columns; an indented line continues the line before."""
    lines = re.sub(r"\n +", " ", table.strip()).splitlines()
    return [[column.strip() for column in line.split("|")] for line in lines]


def _nouns() -> tuple[Noun, ...]:
    nouns: list[Noun] = []
    for (row,) in _rows(_NOUNS):
        kind, _, entries = row.partition(":")
        for entry in entries.split(","):
            english, french, gender = entry.replace("=", " ").split()
            one, _, many = english.partition("/")
            un, _, plusieurs = french.partition("/")
            forms = (one, many or ending_in_s(one)), (un, plusieurs or french_plural(un))
            nouns.append(Noun(len(nouns), kind, *forms, feminine=gender == "f"))
    return tuple(nouns)


NOUNS = _nouns()


def select(selection: str) -> tuple[Noun, ...]:
    """Return the nouns of a selection, in the order of the lexicon."""
    terms = " ".join(_GROUPS.get(term, term) for term in selection.split()).split()
    wanted = {term for term in terms if not term.startswith("-")}
    unwanted = {term[1:] for term in terms if term.startswith("-")}
    names = {noun: {noun.kind, noun.english[0]} for noun in NOUNS}
    return tuple(n for n in NOUNS if names[n] & wanted and not names[n] & unwanted)


def _adjectives() -> tuple[Adjective, ...]:
    adjectives: list[Adjective] = []
    for precedes, table in ((True, _ADJECTIVES_BEFORE), (False, _ADJECTIVES_AFTER)):
        for english, french, selection in _rows(table):
            masculine, feminine, before_vowel = [*french.split(), "", ""][:3]
            adjectives.append(
                Adjective(
                    len(adjectives),
                    english,
                    french_genders(masculine, feminine),
                    before_vowel or masculine,
                    precedes,
                    select(selection),
                )
            )
    return tuple(adjectives)


def _verbs() -> tuple[Verb, ...]:
    verbs: list[Verb] = []
    for gives, table in ((False, _VERBS), (True, _GIVING)):
        for english, french, aspect, subjects, objects, adjuncts in _rows(table):
            forms, _, particle = english.partition(" ")
            base, _, past = forms.partition("/")
            reflexive = french.startswith("se ")
            verbs.append(
                Verb(
                    len(verbs),
                    aspect,
                    english_forms(base, past),
                    particle,
                    conjugation(french.removeprefix("se "), reflexive),
                    reflexive,
                    select(subjects),
                    select(objects),
                    select("people") if gives else (),
                    tuple(
                        PREPOSITIONS[name.strip("!").replace("_", " ")] for name in adjuncts.split()
                    ),
                    needs_place="!" in adjuncts,
                )
            )
    return tuple(verbs)


ADJECTIVES = _adjectives()
PREPOSITIONS = {
    english: Preposition(english, french, select(selection))
    for english, french, selection in _rows(_PREPOSITIONS)
}
VERBS = _verbs()

BE = Verb(
    len(VERBS),
    "being",
    {"base": same("be"), "present": IS, "past": WAS},
    "",
    conjugation("être"),
)
HAVE = next(verb for verb in VERBS if verb.french.infinitive == "avoir")


def _clause_verb(rank: int, aspect: str, base: str, past: str, french: str) -> Verb:
    """Return a verb with a clause as its object: she thinks that …"""
    forms, subjects = english_forms(base, past), select("people -child")
    return Verb(rank, aspect, forms, "", conjugation(french), subjects=subjects)


THINK = _clause_verb(len(VERBS) + 1, "state", "think", "thought", "penser")
SAY = _clause_verb(len(VERBS) + 2, "event", "say", "said", "dire")
