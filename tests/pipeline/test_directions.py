"""Translators of both directions: the target language, given or guessed, and typography."""

import pytest

from glassformer import checkpoint
from glassformer.data.tokenizer import EOS
from glassformer.data.typography import normalize, typeset
from glassformer.decode.options import Hypothesis, SearchOptions
from glassformer.errors import CheckpointError, InputError
from glassformer.pipeline import Translator, load_translator
from glassformer.pipeline import translator as translator_module
from glassformer.pipeline.engines import inference_model
from two_way import ENGLISH, FRENCH, TOKENIZER, two_way

SHORT = {"beam_size": 2, "max_length": 8}
TAGS = {to: TOKENIZER.tag_id(f"<2{to}>") for to in ("en", "fr")}


def called(content, engine="compiled") -> Translator:
    return Translator(inference_model(content, engine=engine), content.tokenizers, content.settings)


@pytest.fixture(scope="module", params=["compiled", "torch"])
def translator(request) -> Translator:
    return called(two_way(), request.param)


@pytest.fixture
def seen(monkeypatch) -> list[list[int]]:
    """The source ids that reach the search, whose answer is a text of quotes and marks."""
    found: list[list[int]] = []

    def answer(decoders, sources, bos, eos, options, prefixes, numbers):
        found.extend(sources)
        (ids,) = TOKENIZER.encode(['l\'a "thé" ?'])
        return [[Hypothesis(ids, -1.0, -1.0, True)] for _ in sources]

    monkeypatch.setattr(translator_module, "search", answer)
    return found


# Directions


def test_a_model_of_two_directions_translates_into_both(translator):
    assert translator.targets == ("fr", "en")
    to_french = translator.translate(ENGLISH, to="fr", **SHORT)
    to_english = translator.translate(ENGLISH, to="en", split=False, **SHORT)
    assert to_french != to_english
    assert translator.towards("en").translate(ENGLISH, split=False, **SHORT) == to_english


@pytest.mark.parametrize("to", ["fr", "en"])
def test_the_tag_of_the_target_comes_first(translator, seen, to):
    translator.translate(ENGLISH, to=to, split=False)
    plain = [normalize(text, "en" if to == "fr" else "fr") for text in ENGLISH]
    assert sorted(seen) == sorted([TAGS[to], *ids, EOS] for ids in TOKENIZER.encode(plain))


def test_the_target_is_guessed_from_each_text(translator):
    mixed = [ENGLISH[0], FRENCH[1], FRENCH[2], ENGLISH[3]]
    languages = ["fr", "en", "en", "fr"]
    assert translator.target_languages(mixed) == languages
    expected = [
        translator.translate(text, to=to, split=False, **SHORT)
        for text, to in zip(mixed, languages, strict=True)
    ]
    assert translator.translate(mixed, split=False, **SHORT) == expected
    options = translator.options(**SHORT)
    assert [best.text for best, *_ in translator.n_best(mixed, options)] == expected
    given = translator.n_best(mixed, options, to=languages)
    assert [best.text for best, *_ in given] == expected


def test_the_target_is_guessed_from_the_text_not_from_its_sentences(translator, seen):
    translator.translate("Paris. Le chien voit un chat. C'est là.")
    assert len(seen) == 3 and {ids[0] for ids in seen} == {TAGS["en"]}


def test_scores_depend_on_the_direction(translator):
    scores = {to: translator.score(ENGLISH, FRENCH, to=to) for to in ("fr", "en")}
    assert scores["fr"] != scores["en"]
    assert translator.score(ENGLISH, FRENCH) == scores["fr"]
    turned = translator.towards("en").score(ENGLISH, FRENCH)
    assert turned == scores["en"]


@pytest.mark.parametrize("to", ["fr", "en"])
def test_a_stream_has_a_direction(translator, to):
    for text in ENGLISH + FRENCH:
        told = "".join(translator.stream(text, to=to, max_length=12))
        assert told == translator.translate(text, 1, to=to, max_length=12)


def test_prefixes_keep_their_own_typography(translator):
    for texts, to in ((ENGLISH, "fr"), (FRENCH, "en")):
        for prefix in ("l’a", "l'a"):
            (answer,) = translator.translate(texts[:1], to=to, prefixes=[prefix], max_length=12)
            assert answer.startswith(prefix)


def test_another_language_is_refused(translator):
    with pytest.raises(InputError, match="does not translate into 'de'") as caught:
        translator.translate("tea", to="de")
    assert "en to fr and fr to en" in caught.value.why
    with pytest.raises(InputError, match="2 texts were given with 1 target languages"):
        translator.n_best(ENGLISH[:2], SearchOptions(), to=["fr"])


def test_languages_that_cannot_be_guessed_must_be_given():
    content = two_way()
    settings = content.settings.replace(data={"source_language": "de", "directions": "forward"})
    one_way = Translator(inference_model(content), content.tokenizers, settings)
    assert one_way.target_languages(["ein Hund"]) == ["fr"]
    one_way.settings = settings.replace(data={"directions": "both"})
    with pytest.raises(InputError, match="target language is not given") as caught:
        one_way.target_languages(["ein Hund"])
    assert "to='fr', --to fr" in caught.value.remedy


def test_the_source_tokenizer_is_that_of_the_direction(translator):
    assert translator.source_tokenizer.encode(["a dog"])[0][0] == TAGS["fr"]
    assert translator.towards("en").source_tokenizer.encode(["a dog"])[0][0] == TAGS["en"]


def test_a_sentence_in_the_language_asked_for_stays(translator, seen):
    mixed = "Je suis là.  I am here. C'est la maison !"
    parts = translator.translate(mixed, to="fr").split("  ")
    assert parts[0] == "Je suis là." and parts[1].endswith("C'est la maison !")
    assert len(seen) == 1 and seen[0][0] == TAGS["fr"]
    assert translator.translate("The dog is here. ", to="en") == "The dog is here. "
    assert "".join(translator.stream(FRENCH[0], to="fr")) == FRENCH[0]
    assert len(seen) == 1
    translator.translate("Je suis là.")  # no language is asked for: the other one is meant
    assert [ids[0] for ids in seen] == [TAGS["fr"], TAGS["en"]]


# Typography


def test_input_is_normalised(translator):
    fancy = "Where  is\u00a0“the\u00adhouse”…"
    plain = 'Where is "thehouse"...'
    assert translator.translate(fancy, to="fr", **SHORT) == translator.translate(
        plain, to="fr", **SHORT
    )
    scored = [translator.score([text], ["l’a"], to="fr") for text in (fancy, plain)]
    assert scored[0] == scored[1] == translator.score([plain], ["l'a"], to="fr")


def test_french_output_is_typeset_unless_told_not_to(translator, seen):
    plain = 'l\'a "thé" ?'
    printed = typeset(plain, "fr")
    assert "«" in printed and translator.translate("a dog", to="fr") == printed
    assert translator.translate("a dog", to="fr", typeset=False) == plain
    assert translator.translate("un chien", to="en") == plain
    for on, text in ((True, printed), (False, plain)):
        ((found,),) = translator.n_best(["a dog"], SearchOptions(), to="fr", typeset=on)
        assert found.text == text


def test_a_stream_is_typeset_like_a_translation(monkeypatch):
    translator = called(two_way())
    (ids,) = TOKENIZER.encode(['l\'a "thé le chat" ? du thé...'])
    monkeypatch.setattr(translator_module, "stream", lambda *_, **__: iter(ids))
    for on in (True, False):
        told = "".join(translator.stream("a dog", to="fr", typeset=on))
        assert told == (typeset(TOKENIZER.decode(ids), "fr") if on else TOKENIZER.decode(ids))


def test_a_model_without_typography_reads_and_writes_text_as_it_is(seen):
    translator = called(two_way(typography=False))
    fancy = "the “dog”"
    assert translator.translate(fancy, to="fr") == 'l\'a "thé" ?'
    assert seen == [[TAGS["fr"], *TOKENIZER.encode([fancy])[0], EOS]]


def test_typography_goes_with_one_direction_too(seen):
    translator = called(two_way(directions="forward"))
    assert translator.targets == ("fr",)
    assert translator.translate("the  dog") == typeset('l\'a "thé" ?', "fr")
    assert seen == [[*TOKENIZER.encode(["the dog"])[0], EOS]]


# Ensembles


def test_an_ensemble_has_the_directions_of_its_members(tmp_path):
    for number in range(2):
        checkpoint.write(two_way(seed=number), tmp_path / str(number))
    both = load_translator([tmp_path / "0", tmp_path / "1"])
    assert both.targets == ("fr", "en")
    assert both.score(ENGLISH, FRENCH, to="en") != both.score(ENGLISH, FRENCH, to="fr")
    checkpoint.write(two_way(directions="forward"), tmp_path / "2")
    with pytest.raises(CheckpointError, match=r"different data\.directions: 'both' and 'forward'"):
        load_translator([tmp_path / "0", tmp_path / "2"])
