"""Each rule of the behaviour suite accepts good translations and rejects wrong ones."""

import pytest

from glassformer.evaluate.rules import RULES, USUAL, Case, contains


def case(source: str, target: str = "fr", **fields: tuple[str, ...]) -> Case:
    return Case("kind", source, (), USUAL, target, **fields)


# rule, source, an output that passes, an output that fails
EXAMPLES = [
    ("not_empty", "Hello.", "Bonjour.", " "),
    ("not_a_copy", "Hello, Tom!", "Bonjour, Tom !", "hello Tom"),
    ("length", "The cat sleeps on the red sofa.", "Le chat dort sur le canapé.", "Le"),
    ("length", "The cat sleeps on the red sofa.", "Le chat dort.", "Le chat dort bien. " * 5),
    ("starts", "The cat sleeps.", "Le chat dort.", "chat dort Le."),
    ("starts", "The cat sleeps.", "« Le chat dort. »", "« le chat dort. »"),
    ("starts", "the cat sleeps.", "le chat dort.", None),
    ("ends", "Where is it?", "Où est-ce ?", "Où est-ce."),
    ("ends", 'He said "Go!"', "Il a dit « Va ! »", "Il a dit « Va »"),
    ("ends", 'He said "Go."', "Il a dit «\u00a0Va.\u00a0»", "Il a dit «\u00a0Va\u00a0»"),
    ("ends", "Well... 😀", "Eh bien… 😀", "Eh bien. 😀"),
    ("ends", "no mark", "sans point.", None),
    ("language", "She is in the house.", "Elle est dans la maison.", "Elle is in the maison."),
    ("language", "Milk, bread", "Lait, pain", None),
    ("word_order", "I see the dog.", "Je le vois, le chien.", "Je vois des."),
    ("word_order", "Can I see my dog?", "Puis-je voir mon chien ?", "Puis-je mon le voir chien ?"),
    ("repetition", "We sit down.", "Nous nous asseyons.", "Nous nous nous asseyons."),
    ("repetition", "No, no, no!", "Non, non, non !", "Non, non, non, non !"),
    ("repetition", "A cat on a mat.", "Un chat sur un tapis.", "Un chat sur un chat sur un tapis."),
    ("repetition", "Go on.", "Continue.", "Cocococococontinue."),
    ("repetition", "Go on!", "Continue !", "Continue ! ! ! !"),
    ("repetition", "2,000,000 cats", "2 000 000 chats", None),
    ("clean", "Hello 😀", "Bonjour 😀", "Bonjour ⁇"),
    ("numbers", "It has 1,250,000 people.", "1 250 000 habitants", "1 250 habitants"),
    ("numbers", "It has 1,250 people.", "1.250 habitants", "11 250 0 habitants"),
    ("numbers", "2.5 degrees", "2,5 degrés", "25 degrés"),
    ("numbers", "12.50 euros", "12 euros 50", "12 euros"),
    ("numbers", "I have 3 cats.", "J'ai trois chats.", "J'ai quatre chats."),
    ("numbers", "version 1.4.2", "version 1.4.2", "version 1.4"),
    ("numbers", "on 05/11/2022", "le 5/11/2022", "le 5/11/2002"),
    ("numbers", "See https://a.example/42 now", "Voyez maintenant", None),
    ("currency", "It costs $5.", "Ça coûte 5 dollars.", "Ça coûte 5 euros."),
    (
        "urls",
        "See http://a.example/x?y=1.",
        "Voir http://a.example/x?y=1.",
        "Voir http://a.example/x",
    ),
    ("emails", "To a.b@c.example!", "À a.b@c.example !", "À a.b@c.exemple !"),
    ("emoji", "Hi ❤️👍🏽", "Salut ❤👍🏽", "Salut ❤"),
    ("emoji", "I like it 😀", "J'aime ça 😀", "J'aime 😀 ça"),
    ("placeholders", "{n} of %(m)d <b>x</b>", "<b>x</b> {n} sur %(m)d", "<b>x {n} sur %(m)d"),
    ("quotes", 'He said "yes".', "Il a dit « oui ».", "Il a dit oui."),
    ("negation", "I don't know.", "Je n'en sais rien.", "Je sais."),
    ("negation", "Nobody came.", "Nul n'est venu.", "Quelqu'un est venu."),
    ("affirmative", "I know.", "Je sais.", "Je ne sais pas."),
    ("capitals", "GO HOME, PAUL", "RENTRE CHEZ TOI, PAUL", "Rentre chez toi, Paul"),
    ("lines", "a\n\n- b\n- c", "x\n\n- y\n- z", "x\n\ny\nz"),
    ("lines", "a\nb", "x\ny", "x y"),
    ("sentence_count", "Mr. A left. I stayed.", "M. A est parti. Je suis resté.", "M. A."),
    ("unchanged", "Je ne sais pas.", "Je ne le sais pas.", "Les savants passent."),
    ("blank", "  ", "\n", "Un"),
    ("no_letters", "?!", "? !", "Quoi ?!"),
]


@pytest.mark.parametrize(("rule", "source", "good", "bad"), EXAMPLES)
def test_a_rule_accepts_a_good_output_and_rejects_a_wrong_one(
    rule: str, source: str, good: str, bad: str | None
) -> None:
    assert RULES[rule](case(source), good) is None
    if bad is not None:
        assert RULES[rule](case(source), bad)


EXPECTED = case("", expect=("chat*|félin", "sous la"), avoid=("chien",), keep=("Bo-2",))


@pytest.mark.parametrize("rule", ["expect", "avoid", "keep"])
def test_expected_and_kept_text_is_demanded_and_avoided_text_rejected(rule: str) -> None:
    assert RULES[rule](EXPECTED, "Les Chats dorment sous la table Bo-2.") is None
    assert RULES[rule](EXPECTED, "L'achat d'un chien sur la table bo-2.")


INTO_ENGLISH = [
    ("language", "Il est là.", "He is there.", "Il est là, with lui."),
    ("word_order", "Où est mon sac ?", "Where is my bag?", "Bag my where is the?"),
    ("numbers", "12 500,5 kg", "12,500.5 kg", "12,500 kg"),
    ("numbers", "J'ai 3 chats.", "I have three cats.", "I have two cats."),
    ("currency", "5 £", "5 pounds", "5 euros"),
    ("negation", "Je ne peux pas.", "I can't.", "I can."),
    ("affirmative", "Je peux.", "I can.", "I cannot."),
]


@pytest.mark.parametrize(("rule", "source", "good", "bad"), INTO_ENGLISH)
def test_rules_know_english_as_the_target(rule: str, source: str, good: str, bad: str) -> None:
    assert RULES[rule](case(source, "en"), good) is None
    assert RULES[rule](case(source, "en"), bad)


def test_every_rule_has_an_example() -> None:
    shown = {rule for rule, _, _, bad in EXAMPLES if bad is not None} | {"expect", "avoid", "keep"}
    assert shown == set(RULES)


@pytest.mark.parametrize(
    ("text", "alternatives", "found"),
    [
        ("L’école est là", "école", True),
        ("Ma soeur", "sœur", True),
        ("Ma sœur", "soeur", True),
        ("ecole", "école", False),  # accents count,
        ("L'ECOLE EST LA", "école", True),  # but not in capitals
        ("Est-ce que tu viens", "est ce que", True),
        ("15 h 30", "15 h 30", True),  # a no-break space
        ("15h30", "15 h 30", True),
        ("Il mangeait", "mang*", True),
        ("Il mangeait", "mange", False),
        ("démanger", "mang*", False),
        ("aux prochains feux", "prochain* feu*", True),
        ("Ça coûte 5 $.", "€|$", True),
    ],
)
def test_alternatives_match_whole_words_in_any_typography(
    text: str, alternatives: str, found: bool
) -> None:
    assert contains(text, alternatives) is found
