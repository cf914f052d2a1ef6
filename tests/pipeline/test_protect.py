"""Items are copied to the letter and capitals come back, whatever the model does to a sentence."""

from time import perf_counter

import pytest

import two_way
from glassformer.pipeline import Translator
from glassformer.pipeline.batches import Translation
from glassformer.pipeline.engines import inference_model
from glassformer.pipeline.layout import Layout
from glassformer.pipeline.protect import MAX_ITEMS, has_words, protect


@pytest.mark.parametrize(
    ("sentence", "items"),
    [
        ("See https://pay.example.com/a?b=c#d-2.", ["https://pay.example.com/a?b=c#d-2"]),
        ("Ask a.b@example.org or c+d@x.co.uk!", ["a.b@example.org", "c+d@x.co.uk"]),
        ("Click <b>here</b> or <a href='x'>there</a>", ["<b>", "</b>", "<a href='x'>", "</a>"]),
        ("{user}, %s and %(n)d in ${HOME}, {{x}}", ["{user}", "%s", "%(n)d", "${HOME}", "{{x}}"]),
        ("Run `pip install x` with --verbose", ["`pip install x`", "--verbose"]),
        ("In /var/log/syslog. and config.toml", ["/var/log/syslog", "config.toml"]),
        ("get_name() of maxValue, DEBUG=True", ["get_name()", "maxValue", "DEBUG=True"]),
        ("He wrote 你好 and Привет 🎉🎉", ["你好", "Привет", "🎉🎉"]),
        ("My family 👨\u200d👩\u200d👧", ["👨\u200d👩\u200d👧"]),
        ("@anna likes #paris", ["@anna", "#paris"]),
        ("It costs $12.50, 5% of 1,200 at 8:30 a.m.", []),
        ("Mr. Smith and/or the U.S. army, 90 km/h, l'été naïf of Việt Nam", []),
        ("I am home.are you (really) here?", []),
        ("", []),
    ],
)
def test_items_are_found_and_words_are_not(sentence: str, items: list[str]) -> None:
    found = protect(sentence)
    assert list(found.items) == items
    assert found.restore(found.text) == sentence
    assert not any(item in found.text for item in items)


def test_items_are_put_back_where_their_masks_went() -> None:
    found = protect("{a} before {b}")
    assert found.text == "{1} before {2}"
    assert found.kept("{2} après {1}") and found.restore("{2} après {1}") == "{b} après {a}"
    for lost in ("{1} avant", "{1} {2} {2}", "{1} {3}", ""):
        assert not found.kept(lost)
    again = found.without_masks()
    assert again.text == "{a} before {b}" and again.restore("{1} {b}") == "{1} {b}"


def test_tags_at_words_are_read_apart_from_them_and_put_back() -> None:
    found = protect("Click <b>here</b>, or <br> <i>there</i>")
    assert found.text == "Click {1} here {2}, or {3} {4} there {5}"
    assert found.restore("{4} Là {5} ou {3} cliquez {1} ici {2}") == (
        "<i>Là</i> ou <br> cliquez <b>ici</b>"
    )


@pytest.mark.parametrize(
    ("sentence", "translation", "restored"),
    [
        ("About 5 came.", "environ 5.", "Environ 5."),
        ("« Oui », dit-il.", '"yes," he said.', '"Yes," he said.'),
        ("The dog", "5 chiens", "5 chiens"),
        ("see it", "voir", "voir"),
        ("NATO met.", "l'OTAN", "l'OTAN"),
        ("iPhone", "téléphone", "téléphone"),
        ("", "a", "a"),
    ],
)
def test_a_sentence_that_begins_with_a_capital_does_so_in_translation(
    sentence: str, translation: str, restored: str
) -> None:
    found = protect(sentence)
    assert found.restore(translation) == restored
    assert "".join(found.restore_pieces(translation)) == restored


def test_a_sentence_of_many_items_is_read_as_it_is() -> None:
    few, many = ("{x} " * count for count in (MAX_ITEMS, MAX_ITEMS + 1))
    assert len(protect(few).items) == MAX_ITEMS
    assert protect(many).items == () and protect(many).text == many


@pytest.mark.parametrize(
    ("sentence", "read"),
    [
        ("THE SHOP IS CLOSED!", "The shop is closed!"),
        ('"I AM HERE," SHE SAID.', '"I am here," she said.'),
        ("FERMÉ LE 12 MAI", "Fermé le 12 mai"),
        ("HELLO {name}, GO NOW", "Hello {1}, go now"),
    ],
)
def test_capitals_are_read_in_small_letters_and_come_back(sentence: str, read: str) -> None:
    found = protect(sentence)
    assert found.text == read and found.restore(found.text) == sentence


@pytest.mark.parametrize("sentence", ["NATO", "OK!", "The USA", "I", "12:30", "iPhone"])
def test_abbreviations_are_not_taken_for_capitals(sentence: str) -> None:
    assert not protect(sentence).capitals


@pytest.mark.parametrize(
    ("text", "expected"),
    [("日本語", False), ("Привет, мир!", False), ("🙂 {x}", False), ("你好 you", True)],
)
def test_a_text_of_items_only_has_no_words(text: str, expected: bool) -> None:
    assert has_words(text) is expected
    assert bool(Layout([text], split=True).sentences) is expected


def test_without_split_a_text_is_read_as_it_is() -> None:
    texts = ["SEE https://a.b/c NOW", "日本語"]
    layout = Layout(texts, split=False)
    assert layout.sentences == texts and layout.join(["A", "B"]) == ["A", "B"]


PIECES = [
    "/a",
    "a-",
    "a.",
    "@",
    "<a",
    "`",
    "--a",
    "a_",
    "aA",
    "www.",
    "{",
    "%(",
    "$",
    "http://",
    "你",
]
PIECES += ["A ", "a=", "😀", "日本語。", "a.b@", "x()"]


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_time_grows_linearly_with_the_text(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    start = perf_counter()
    layout = Layout([text], split=True)
    layout.join(layout.sentences)
    assert perf_counter() - start < 6  # quadratic time would take minutes


SOURCE = "See www.a.fr/b now. THE DOG IS HERE."


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> tuple[Translator, dict[str, str], list[str]]:
    """A translator that gives known answers, what these are, and what it is asked."""
    content = two_way.two_way(typography=False)
    translator = Translator(inference_model(content), content.tokenizers, content.settings)
    known: dict[str, str] = {}
    asked: list[str] = []

    def search(self, texts, to, options, prefixes=None, **_):  # type: ignore[no-untyped-def]
        asked.extend(texts)
        return [[Translation(known[text], 0.0, 0.0, [])] for text in texts]

    monkeypatch.setattr(Translator, "_search", search)
    return translator, known, asked


def test_a_translation_has_items_and_capitals(
    answers: tuple[Translator, dict[str, str], list[str]],
) -> None:
    translator, known, asked = answers
    known |= {"See {1} now.": "Voir {1}.", "The dog is here.": "Le chien est ici."}
    assert translator.translate(SOURCE, to="fr") == "Voir www.a.fr/b. LE CHIEN EST ICI."
    assert asked == list(known)


def test_a_sentence_whose_mask_is_lost_is_translated_as_it_is(
    answers: tuple[Translator, dict[str, str], list[str]],
) -> None:
    translator, known, asked = answers
    known |= {"See {1} now.": "Voir.", "The dog is here.": "Le chien."}
    known["See www.a.fr/b now."] = "Voir www.a.fr/b."
    assert translator.translate(SOURCE, to="fr") == "Voir www.a.fr/b. LE CHIEN."
    assert asked == list(known)


def test_text_around_an_item_that_is_always_lost_is_translated_alone(
    answers: tuple[Translator, dict[str, str], list[str]],
) -> None:
    translator, known, asked = answers
    source = "Click <b>here</b>  NOW PLEASE!"
    known |= {"Click {1} here {2}  NOW PLEASE!": "Cliquez {1}.", source: "Cliquez <b>."}
    known |= {"Click": "Cliquez", "here": "ici", "Now please!": "Maintenant !"}
    assert translator.translate(source, to="fr") == "Cliquez <b>ici</b>  MAINTENANT !"
    assert asked == list(known)


def test_a_word_that_is_copied_is_translated_in_small_letters(
    answers: tuple[Translator, dict[str, str], list[str]],
) -> None:
    translator, known, asked = answers
    known |= {"Bread": "Bread", "Paris": "Paris", "Tea": "Thé", "bread": "pain", "paris": "paris"}
    assert translator.translate(["Bread", "Paris", "Tea"], to="fr") == ["Pain", "Paris", "Thé"]
    assert asked == list(known)


def test_every_item_is_in_the_answer_of_a_model_that_copies_none() -> None:
    content = two_way.two_way()
    translator = Translator(inference_model(content), content.tokenizers, content.settings)
    text = "the dog <i>sees</i> {x} and {x} here."
    answer = translator.translate(text, to="fr", max_length=12)
    assert [answer.count(item) for item in ("<i>", "</i>", "{x}")] == [1, 1, 2]
    assert "".join(translator.stream(text, to="fr", max_length=12)) == translator.translate(
        text, 1, to="fr", max_length=12
    )


def test_a_stream_is_what_translate_returns() -> None:
    content = two_way.two_way()
    translator = Translator(inference_model(content), content.tokenizers, content.settings)
    for text in ("THE DOG IS HERE.", "see {x} here. SOME TEA, PLEASE!", "日本語 {x}"):
        told = "".join(translator.stream(text, to="fr", max_length=12))
        assert told == translator.translate(text, 1, to="fr", max_length=12)
