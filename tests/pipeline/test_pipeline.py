"""A checkpoint that you can call: text in, text out, whoever else is in the batch."""

import os
from collections.abc import Callable
from functools import lru_cache
from math import exp, log
from typing import get_args

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import glassformer
from decode.oracles import after, beam
from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, RunFolder, as_arrays, weights_of
from glassformer.config import ModelSettings, RunSettings, preset
from glassformer.data.tokenizer import BOS, EOS, PAD, Tokenizer
from glassformer.decode.search import Hypothesis, SearchOptions, search
from glassformer.errors import CheckpointError, DataError, InputError, SettingsError
from glassformer.model.build import build
from glassformer.pipeline import (
    Classification,
    Classifier,
    Generator,
    Translator,
    load,
    load_classifier,
    load_generator,
    load_translator,
    memory,
)
from glassformer.pipeline import generator as generator_module
from glassformer.pipeline import translator as translator_module
from glassformer.pipeline.batches import pieces_of
from glassformer.pipeline.engines import inference_model
from glassformer.pipeline.memory import search_bytes
from glassformer.pipeline.protect import protect
from glassformer.pipeline.torch_models import torch_model
from glassformer.quantize import dequantise_weights, quantise_weights
from pretrained.stand_ins import bundle
from two_way import two_way

ENGLISH = ["a dog", "the old cat sees a dog", "two children want some tea", "a house of tea"]
FRENCH = ["un chien", "le vieux chat voit un chien", "deux enfants veulent du thé", "la maison"]
TOKENIZERS = {
    "joint": Tokenizer.train((ENGLISH + FRENCH) * 5, 60),
    "source": Tokenizer.train(ENGLISH * 5, 40),
    "target": Tokenizer.train(FRENCH * 5, 45),
}
JOINT, SEPARATE = ["joint"], ["source", "target"]
LONGEST = 40
TEXTS = ["tea", *ENGLISH[1:3], " ".join(ENGLISH[:2])]
CALLED = {"translator": Translator, "classifier": Classifier, "language-model": Generator}

ENGINES = ["compiled", "torch"]


def saved(sides=JOINT, seed: int = 0, kind: str = "translator", **changes) -> Checkpoint:
    """A run's settings, weights so large that it says this and that, and its subwords."""
    sizes = {
        "d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1,
        "tie_target_output": False, "n_classes": 3, **changes,
    }  # fmt: skip
    tokenizers = {side: TOKENIZERS[side] for side in sides}
    if sides == SEPARATE:
        sizes |= {"source_vocab_size": 40, "tie_source_target": False, "vocab_size": 45}
    else:
        sizes |= {"vocab_size": 60}
    labels = ("good", "bad", "ugly") if kind == "classifier" else ()
    settings = RunSettings.of(
        model={"kind": kind, **sizes}, data={"max_length": LONGEST, "labels": labels}
    )
    torch.manual_seed(seed)
    weights = weights_of(build(settings.model))
    large = {n: torch.randn_like(w) / 2 for n, w in weights.items() if w.dim() == 2}
    return Checkpoint(settings, as_arrays(weights | large), tokenizers)


def called(content: Checkpoint, engine: str = "torch"):
    """Return what `load` would return for this checkpoint."""
    kind = CALLED[content.settings.model.kind]
    return kind(inference_model(content, engine=engine), content.tokenizers, content.settings)


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    return request.param


@pytest.fixture(params=[JOINT, SEPARATE], ids=["joint", "separate"])
def content(request) -> Checkpoint:
    return saved(request.param)


@pytest.fixture
def translator(content, engine) -> Translator:
    return called(content, engine)


@pytest.fixture
def classifier(engine) -> Classifier:
    return called(saved(kind="classifier"), engine)


@pytest.fixture
def generator(engine) -> Generator:
    return called(saved(kind="language-model"), engine)


LONE = "a \udcff dog"  # the byte 255 of a command line in another encoding


@pytest.mark.parametrize("text", [LONE, "\ud800"], ids=["in a sentence", "alone"])
def test_text_that_is_not_unicode_is_refused_by_every_method(translator, classifier, text):
    calls = (
        lambda: translator.translate(text),
        lambda: translator.translate(["a dog", text]),
        lambda: translator.n_best([text], SearchOptions()),
        lambda: translator.score([text], ["a dog"]),
        lambda: translator.score(["a dog"], [text]),
        lambda: list(translator.stream(text)),
        lambda: classifier.classify(text),
    )
    for call in calls:
        with pytest.raises(InputError, match=r"has the character '.ud[8c]") as caught:
            call()
        assert "surrogate pair" in caught.value.why and "UTF-8" in caught.value.remedy


# Translating


def test_one_text_gives_a_text_and_many_give_a_list(translator):
    err = translator.translate(ENGLISH[1], max_length=8)
    assert isinstance(err, str)
    for texts in (ENGLISH[1:2], (ENGLISH[1],)):
        assert translator.translate(texts, max_length=8) == [err]


def test_a_translator_is_searched_as_its_settings_say_unless_told_otherwise():
    content = saved()
    plain = called(content)
    longing = Translator(
        plain.decoders, content.tokenizers, content.settings.replace(search={"length_penalty": 9.0})
    )
    asked = {"beam_size": 4, "max_length": 10}
    far = plain.translate(TEXTS, length_penalty=9.0, **asked)
    assert longing.translate(TEXTS, **asked) == far != plain.translate(TEXTS, **asked)
    assert longing.translate(TEXTS, length_penalty=0.6, **asked) == plain.translate(TEXTS, **asked)
    assert longing.options(n_best=2) == SearchOptions(n_best=2, length_penalty=9.0)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_answers_are_the_same_alone_and_in_any_batch(translator, beam_size):
    options = {"beam_size": beam_size, "max_length": 10}
    alone = [translator.translate(text, **options) for text in TEXTS]
    assert len(set(alone)) > 1, "the answers depend on the questions"
    for batch_tokens in (1, 30, 4_096):
        err = translator.translate(TEXTS, batch_tokens=batch_tokens, **options)
        assert err == alone
        err = translator.translate(TEXTS[::-1], batch_tokens=batch_tokens, **options)
        assert err == alone[::-1]


@pytest.mark.parametrize("batch_tokens", [1, 30, 4_096])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_answers_keep_the_order_of_the_questions_and_batches_their_budget(
    monkeypatch, batch_tokens, beam_size
):
    shapes, numbered = [], []

    def echo(decoders, sources, bos, eos, options, prefixes, numbers):
        shapes.append((len(sources), max(map(len, sources))))
        numbered.extend(numbers)
        assert all(source[-1] == eos for source in sources)
        return [[Hypothesis(source[:-1], -1.0, -1.0, True)] for source in sources]

    monkeypatch.setattr(translator_module, "search", echo)
    texts = [*ENGLISH, "", *FRENCH] * 2
    err = called(saved()).translate(texts, beam_size, batch_tokens=batch_tokens)
    assert err == texts
    cells = [(rows, rows * (width - 1) * beam_size) for rows, width in shapes]
    assert all(size <= batch_tokens or rows == 1 for rows, size in cells)
    assert sorted(numbered) == list(range(len([text for text in texts if text])))


def test_nothing_to_translate_gives_nothing(translator):
    assert translator.translate([]) == []
    assert translator.n_best([], SearchOptions()) == []
    assert translator.score([], []) == []


@pytest.mark.parametrize("text", ["", " ", "\n", "\t \n"], ids=repr)
def test_an_empty_text_has_an_empty_translation(translator, text):
    assert translator.translate(text, split=False) == ""
    err = translator.translate([text, "tea", text], split=False, max_length=8)
    assert err[::2] == ["", ""]
    (found,) = translator.n_best([text], SearchOptions(n_best=3))
    assert [(t.text, t.score, t.log_probability, t.ids) for t in found] == [("", 0.0, 0.0, [])]


@pytest.mark.parametrize(
    "text", ["☃", "\x00\x07 a dog \x1b", "א ב", "a\u200bdog", "\ufeff"], ids=repr
)
def test_odd_texts_are_texts(translator, text):
    assert isinstance(translator.translate(text, max_length=8), str)


def test_a_text_of_ten_thousand_words_is_refused_unless_it_may_be_cut_or_split(translator):
    long = "a dog " * 5_000
    with pytest.raises(DataError) as caught:
        translator.translate(["tea", long])
    subwords = len(translator.source_tokenizer.encode([long])[0])
    assert f"Sentence 2 of 2 has {subwords:,} subwords: 'a dog a dog" in caught.value.what
    assert len(caught.value.what) < 120
    assert str(LONGEST) in caught.value.why
    assert "truncate=True" in caught.value.remedy and "split=True" in caught.value.remedy
    ids = translator.source_tokenizer.encode([long])[0][:LONGEST]
    short = translator.source_tokenizer.decode(ids)
    options = {"beam_size": 2, "max_length": 8, "split": False}
    cut, expected = (translator.translate(text, truncate=True, **options) for text in (long, short))
    assert cut == expected
    with pytest.raises(DataError, match="The text has"):
        translator.translate(long, split=False)


def test_a_text_is_split_into_sentences_whose_translations_are_joined(translator):
    parts = ["The old cat sees a dog.", "Two children want some tea!", "A dog."]
    err = translator.translate(" ".join(parts), max_length=8)
    found = translator.translate(parts, split=False, max_length=8)
    pairs = zip(parts, found, strict=True)
    assert err == " ".join(protect(part).restore(answer) for part, answer in pairs)
    assert err == translator.translate(" ".join(parts), split=True, max_length=8)
    whole = translator.translate(" ".join(parts), split=False, max_length=8)
    assert (
        whole == translator.n_best([" ".join(parts)], translator.options(max_length=8))[0][0].text
    )
    assert whole != err


def test_layout_is_kept(translator):
    text = "\n  - A dog.  The old cat!\n\n2. Some tea\n\n---\nhttps://a.example/b\n 12.50 \n"
    parts = ["A dog.", "The old cat!", "Some tea"]
    err = translator.translate(text, max_length=8)
    expected = text
    for part, answer in zip(parts, translator.translate(parts, max_length=8), strict=True):
        expected = expected.replace(part, answer)
    assert err == expected


@pytest.mark.parametrize("text", ["", " ", "\n\t\n", "12.50", "https://a.example/b", "☃"], ids=repr)
def test_a_text_without_a_sentence_comes_back_as_it_is(translator, text):
    assert translator.translate(text) == text
    assert "".join(translator.stream(text)) == text


def test_texts_with_prefixes_are_not_split(translator):
    text = "A dog. The old cat"
    err = translator.translate([text], prefixes=["un"], max_length=8)
    assert err == translator.translate([text], prefixes=["un"], split=False, max_length=8)
    with pytest.raises(InputError, match="Prefixes were given for texts that are to be split"):
        translator.translate([text], prefixes=["un"], split=True)


def test_a_stream_is_what_translate_returns(translator):
    lines = "A dog. The cat wants two dogs and the tea,\n some tea."
    for text in (lines, " A dog! \n\n* Tea. The cat\n"):
        for split in (True, False):
            asked = {"split": split, "max_length": 9}
            told = "".join(translator.stream(text, **asked))
            assert told == translator.translate(text, 1, **asked)


def test_a_model_of_one_direction_takes_its_own_target_only(translator):
    assert translator.translate("tea", to="fr") == translator.translate("tea")
    assert translator.towards("fr").translate("tea") == translator.translate("tea")
    for ask in (
        lambda: translator.translate("tea", to="en"),
        lambda: translator.n_best(["tea"], SearchOptions(), to="en"),
        lambda: translator.score(["tea"], ["un"], to="en"),
        lambda: next(translator.stream("tea", to="en")),
        lambda: translator.towards("en"),
    ):
        with pytest.raises(InputError, match="does not translate into 'en'") as caught:
            ask()
        assert "en to fr" in caught.value.why and "'fr'" in caught.value.remedy


def test_options_of_the_search_are_passed_on_and_checked(translator):
    short = translator.translate(ENGLISH[1], 2, max_length=3)
    assert len(translator.target_tokenizer.encode([short])[0]) <= 6
    sampled = [
        translator.translate(ENGLISH[1], sample=True, seed=seed, max_length=9) for seed in range(4)
    ]
    assert len(set(sampled)) > 1
    begun = translator.translate(TEXTS[:2], prefixes=["un", "deux"], max_length=9)
    assert [text[:2] for text in begun] == ["un", "de"]
    drawn = {"sample": True, "max_length": 9}
    assert translator.translate(TEXTS, **drawn)[2] == translator.translate(
        TEXTS[2], first=2, **drawn
    )
    with pytest.raises(SettingsError, match="beam_size = 0"):
        translator.translate("tea", 0)
    with pytest.raises(TypeError, match="beam_width"):
        translator.translate("tea", beam_width=3)


def test_options_that_would_be_passed_over_are_refused(translator, generator):
    with pytest.raises(SettingsError, match="temperature = 50"):
        translator.translate("tea", temperature=50.0, top_k=1, seed=7)
    with pytest.raises(SettingsError, match="seed = 7"):
        generator.generate("tea", sample=False, seed=7)
    for ask in (translator.translate, generator.generate):
        with pytest.raises(InputError, match="n_best = 3 was given") as caught:
            ask("tea", beam_size=3, n_best=3)
        assert "Call n_best([text]" in caught.value.remedy


def test_a_text_where_a_list_is_needed_is_not_read_as_its_letters(translator, generator):
    options = SearchOptions()
    for ask in (
        lambda: translator.n_best("tea", options),
        lambda: translator.n_best(["tea"] * 2, options, "un"),
        lambda: translator.translate("tea", prefixes="u"),
        lambda: translator.score("tea", ["u", "n", "e"]),
        lambda: translator.score(["tea"] * 2, "un"),
        lambda: generator.n_best("tea", options),
    ):
        with pytest.raises(InputError, match="One text was given where a list") as caught:
            ask()
        assert caught.value.remedy == "Give a list: [text]."


def test_the_sides_have_their_own_subwords():
    translator = called(saved(SEPARATE))
    assert translator.source_tokenizer is translator.tokenizer is TOKENIZERS["source"]
    assert translator.target_tokenizer is TOKENIZERS["target"]


def test_the_inputs_are_those_of_training(translator):
    source, target = translator.inputs(ENGLISH[1], FRENCH[1])
    (x,), (y,) = (
        tokenizer.encode([text])
        for tokenizer, text in [
            (translator.source_tokenizer, ENGLISH[1]),
            (translator.target_tokenizer, FRENCH[1]),
        ]
    )
    assert source.tolist() == [[*x, EOS]]
    assert target.tolist() == [[BOS, *y]]


def test_what_is_called_drops_nothing_out(translator):
    one, other = (translator.translate(ENGLISH, max_length=8) for _ in range(2))
    assert one == other


# The best translations, and scores of given ones


def test_the_best_translations_are_those_of_the_textbook(content, translator):
    model = torch_model(content)
    options = SearchOptions(beam_size=4, n_best=3, max_length=6)
    found = translator.n_best(TEXTS, options)
    for text, translations in zip(TEXTS, found, strict=True):
        (ids,) = translator.source_tokenizer.encode([text])
        expected = beam(after(model, [*ids, EOS]), 4, 6, n=3)
        assert [t.ids for t in translations] == [h.ids for h in expected]
        assert [t.score for t in translations] == pytest.approx(
            [h.score for h in expected], abs=1e-5
        )
        decode = translator.target_tokenizer.decode
        assert [t.text for t in translations] == [decode(h.ids) for h in expected]
    best = [translations[0].text for translations in found]
    assert best == translator.translate(TEXTS, 4, max_length=6)


@pytest.mark.parametrize("way", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}], ids=str)
def test_translations_begin_with_their_prefixes(translator, way):
    prefixes = ["", "le vieux", "un", "deux enfants"]
    options = SearchOptions(**way, max_length=12)
    together = translator.n_best(TEXTS, options, prefixes)
    for (translation,), prefix in zip(together, prefixes, strict=True):
        assert translation.text.startswith(prefix)
        (ids,) = translator.target_tokenizer.encode([prefix])
        assert translation.ids[: len(ids)] == ids
    in_pieces = translator.n_best(TEXTS, options, prefixes, batch_tokens=1)
    assert [t.ids for (t,) in in_pieces] == [t.ids for (t,) in together]


ODD = (
    "unchat é\u00a0\u2009\u200b▁ﬁ²ＵéÉ\u0301'…«\"?\t"  # what NFKC or typography change, and letters
)


@lru_cache
def caller(kind: str, typography: bool = False):
    """One pipeline of a kind for all examples of a property."""
    return called(two_way() if typography else saved(kind=kind), "compiled")


@given(prefix=st.text(ODD, max_size=12), typography=st.booleans())
@example(" un", False)
@example("un  chat", False)
@example("Ｕｎ", False)
@example("un\u00a0chat", False)
@example("the\u0301", False)
@example("l'a \"un", True)
@settings(max_examples=60, deadline=None)
def test_an_answer_begins_with_its_prefix_to_the_letter_or_it_is_refused(prefix, typography):
    """The prefix stays as typed through subwords and typography."""
    translator, options = caller("translator", typography), SearchOptions(max_length=16)
    ways: list[Callable[[], str]] = [
        lambda: translator.n_best(["a dog"], options, [prefix], to="fr")[0][0].text
    ]
    if not typography:
        ways.append(lambda: caller("language-model").generate(prefix, max_length=16))
    for answer in ways:
        try:
            assert answer().startswith(prefix)
        except InputError as error:
            assert "cannot be spelt" in error.what or "ends with" in error.what


@pytest.mark.parametrize("prefix", ["un ", "un\u00a0", "un▁", "un\t\n"], ids=repr)
def test_white_space_at_the_end_of_a_prefix_is_refused(translator, generator, prefix):
    for ask in (
        lambda: translator.translate(["tea"], prefixes=[prefix]),
        lambda: generator.generate(prefix),
        lambda: generator.stream(prefix),
    ):
        with pytest.raises(InputError, match="ends with") as caught:
            ask()
        assert repr(prefix[2:]) in caught.value.what


def test_a_prefix_that_is_not_unicode_is_refused(translator):
    with pytest.raises(InputError, match=r"'un\\udcff' has the character '\\udcff'"):
        translator.translate(["tea"], prefixes=["un\udcff"])


def test_a_batch_that_does_not_fit_is_halved_and_one_text_that_does_not_is_refused(
    translator, generator, monkeypatch
):
    options = translator.options(beam_size=4, n_best=2, max_length=6)
    expected = translator.n_best(TEXTS, options)
    sizes, whole = [], translator_module.search

    def watched(decoders, sources, *others):
        sizes.append(len(sources))
        return whole(decoders, sources, *others)

    alone = search_bytes(translator.settings.model, options, [LONGEST], [0])
    monkeypatch.setattr(translator_module, "search", watched)
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: alone)
    found = translator.n_best(TEXTS, options)
    assert [[t.ids for t in one] for one in found] == [[t.ids for t in one] for one in expected]
    assert sizes == [1] * len(TEXTS)
    monkeypatch.setattr(memory, "available_memory", lambda: 1e4)
    for ask in (lambda: translator.translate("tea"), lambda: generator.generate("tea")):
        with pytest.raises(InputError, match=r"may take 0\.\d GB") as caught:
            ask()
        assert "0.0 GB of memory are free" in caught.value.why and "beam" in caught.value.remedy


def test_the_memory_of_a_search_grows_with_its_hypotheses_and_their_length():
    """The pages of the compiled decoder alone, for keys and values, are less."""
    content = saved()
    decoder, model = inference_model(content), content.settings.model
    for width, length in ((1, 63), (5, 127), (5, 1_023)):
        options = SearchOptions(width, max_length=length)
        decoding = decoder.start([[5, EOS]] * 3, 3, width, length)
        taken = decoding.pages.memory.nbytes
        assert (
            taken
            <= search_bytes(model, options, [2] * 3, [0] * 3)
            < 2 * taken + 60 * 3 * width * 40
        )
    big = preset("vaswani2017-big")
    assert search_bytes(big, SearchOptions(256, max_length=4_096), [10], [0]) > 50e9


def test_the_memory_that_is_available_is_no_more_than_there_is():
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    assert 0 < memory.available_memory() <= pages * size


@pytest.mark.parametrize("budget", [0, -1, 2**20 + 1, 10**30])
def test_a_batch_beyond_the_limit_is_refused(translator, classifier, generator, budget):
    for ask in (
        lambda: translator.translate("tea", batch_tokens=budget),
        lambda: translator.score(["tea"], ["un"], batch_tokens=budget),
        lambda: generator.generate("tea", batch_tokens=budget),
        lambda: classifier.classify("tea", batch_tokens=budget),
    ):
        with pytest.raises(InputError, match=f"batch_tokens = {budget}") as caught:
            ask()
        assert "from 1 to 1,048,576" in caught.value.why


def test_an_empty_text_has_an_empty_answer_whatever_the_prefix():
    for typography in (False, True):
        err = caller("translator", typography).translate([""], prefixes=["un"], to="fr")
        assert err == [""]


def test_what_no_subwords_spell_cannot_begin_an_answer(translator, generator):
    for ask in (
        lambda text: translator.translate(["tea"] * 2, prefixes=["un", text]),
        lambda text: generator.generate(["tea", text]),
        lambda text: generator.stream(text),
    ):
        with pytest.raises(InputError, match="'un Ж ☃☃' cannot be spelt") as caught:
            ask("un Ж ☃☃")
        assert "has 'Ж', '☃☃'" in caught.value.why


def test_answers_that_read_alike_are_listed_once_unless_they_are_drawn(monkeypatch, generator):
    translator = called(saved())
    (ids,) = translator.tokenizer.encode(["un chien"])
    other = next(o for o in translator.tokenizer.sample(["un chien"] * 9, 0.9, 0) if o != ids)
    found = [Hypothesis(one, s, s, True) for one, s in ((other, -1.0), (ids, -2.0), ([5], -3.0))]
    for module in (translator_module, generator_module):
        monkeypatch.setattr(module, "search", lambda *_, **__: [found])
    for model in (translator, generator):
        (listed,) = model.n_best(["tea"], SearchOptions(n_best=3))
        assert [(one.ids, one.score) for one in listed] == [(other, -1.0), ([5], -3.0)]
        (drawn,) = model.n_best(["tea"], SearchOptions(n_best=3, sample=True))
        assert [one.ids for one in drawn] == [other, ids, [5]]


def test_drawn_translations_do_not_depend_on_the_batch(translator):
    options = SearchOptions(sample=True, n_best=3, max_length=8)
    found = [translator.n_best(TEXTS, options, batch_tokens=n) for n in (1, 60, 4_096)]
    ids = [[[t.ids for t in one] for one in texts] for texts in found]
    assert ids[0] == ids[1] == ids[2]
    assert len({str(one) for one in ids[0]}) == len(TEXTS)
    behind = translator.n_best(TEXTS[2:], options, first=2)
    assert [[t.ids for t in one] for one in behind] == ids[0][2:]


def test_what_is_drawn_in_a_stream_is_what_is_drawn_for_that_number(translator):
    options = SearchOptions(sample=True, max_length=12)
    for number, (translation,) in enumerate(translator.n_best(TEXTS, options)):
        told = translator.stream(TEXTS[number], number=number, sample=True, max_length=12)
        assert "".join(told) == translation.text


def test_a_score_is_the_log_probability_of_the_target_with_its_end(content, translator):
    model = torch_model(content)
    texts, targets = [*ENGLISH, ""], [*FRENCH, "un chien"]
    scores = translator.score(texts, targets)
    for text, target, (score, length) in zip(texts, targets, scores, strict=True):
        source, given = translator.inputs(text, target)
        labels = [*given[0, 1:].tolist(), EOS]
        with torch.inference_mode():
            log_probs = model(source, given).double().log_softmax(-1)[0]
        expected = sum(float(row[label]) for row, label in zip(log_probs, labels, strict=True))
        assert score == pytest.approx(expected, abs=1e-5)
        assert length == len(labels)
    assert translator.score(texts, targets, batch_tokens=1) == [
        (pytest.approx(score, abs=1e-5), length) for score, length in scores
    ]


def test_the_score_of_a_translation_is_what_the_search_gives_it():
    """Search with a beam so wide that no hypothesis is dropped."""
    translator = called(saved())
    for text, wanted in zip(ENGLISH, FRENCH, strict=True):
        (ids,) = translator.target_tokenizer.encode([wanted])
        options = SearchOptions(beam_size=60, n_best=60, max_length=len(ids) + 1)
        (found,) = translator.n_best([text], options, [wanted])
        (itself,) = [t for t in found if t.ids == ids]
        ((score, _),) = translator.score([text], [wanted])
        assert itself.text == wanted
        assert itself.log_probability == pytest.approx(score, abs=1e-5)


def test_an_answer_is_scored_again_by_its_ids_however_it_is_spelt(translator):
    (found,) = translator.n_best(TEXTS[1:2], SearchOptions(sample=True, n_best=40, max_length=9))
    whole = [one for one in found if one.complete]
    assert any(translator.target_tokenizer.encode([one.text])[0] != one.ids for one in whole)
    texts = TEXTS[1:2] * len(whole)
    scored = translator.score([*texts, "tea"], [*(one.ids for one in whole), FRENCH[0]])
    for one, (score, length) in zip(whole, scored, strict=False):
        assert score == pytest.approx(one.log_probability, abs=1e-5)
        assert length == len(one.ids) + 1
    ((score, length),) = translator.score(["tea"], FRENCH[:1])
    assert scored[-1] == (pytest.approx(score, abs=1e-5), length)


def test_an_answer_tells_whether_it_was_cut(translator):
    (found,) = translator.n_best(TEXTS[1:2], SearchOptions(sample=True, n_best=40, max_length=9))
    assert {one.complete for one in found} == {True, False}
    assert all(one.complete == (len(one.ids) < 9) for one in found)


def test_an_empty_target_is_its_end_alone(translator):
    ((score, length),) = translator.score(["tea"], [""])
    assert length == 1 and score < 0


@pytest.mark.parametrize("way", [{}, {"sample": True, "seed": 3}], ids=str)
def test_a_stream_adds_up_to_the_translation(translator, way):
    for text in TEXTS:
        pieces = list(translator.stream(text, max_length=15, **way))
        assert all(pieces)
        assert "".join(pieces) == translator.translate(text, 1, max_length=15, **way)
    assert list(translator.stream("")) == []


def test_a_stream_of_a_beam_or_of_too_long_a_text_is_refused(translator):
    with pytest.raises(InputError, match="cannot be streamed"):
        next(translator.stream("tea", beam_size=4))
    long = "a dog " * 1_000
    with pytest.raises(DataError, match="subwords"):
        next(translator.stream(long))
    told = "".join(translator.stream(long, truncate=True, max_length=8))
    assert told == translator.translate(long, 1, truncate=True, max_length=8)


def test_a_character_spelt_in_bytes_is_streamed_when_it_is_whole():
    tokenizer = Tokenizer.train(ENGLISH * 5, 400, byte_fallback=True)
    text = "a dog 日本 é a"
    (ids,) = tokenizer.encode([text])
    pieces = list(pieces_of(tokenizer, [], iter(ids)))
    assert "".join(pieces) == text
    assert pieces[-4:] != [] and not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    torn = ids[: ids.index(tokenizer.encode(["é"])[0][-1])]
    assert "".join(pieces_of(tokenizer, [], iter(torn))) == tokenizer.decode(torn)


# Classifying


def test_a_classification_is_the_softmax_of_the_model(classifier):
    model, found = torch_model(saved(kind="classifier")), classifier.classify(ENGLISH)
    for text, one in zip(ENGLISH, found, strict=True):
        (ids,) = classifier.tokenizer.encode([text])
        with torch.inference_mode():
            expected = model(torch.tensor([[BOS, *ids]])).softmax(-1)[0]
        assert tuple(one.probabilities) == classifier.labels == ("good", "bad", "ugly")
        assert list(one.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-6)
        assert one.label == classifier.labels[int(expected.argmax())]
        assert one.probability == max(one.probabilities.values())


def test_classes_are_the_same_alone_and_in_any_batch(classifier):
    texts = [*ENGLISH, "", *FRENCH, "☃"]
    alone = [classifier.classify(text) for text in texts]
    assert all(isinstance(one, Classification) for one in alone)
    for batch_tokens in (1, 20, 4_096):
        for one, other in zip(
            classifier.classify(texts, batch_tokens=batch_tokens), alone, strict=True
        ):
            assert one.label == other.label
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert classifier.classify([]) == []


def test_labels_without_names_are_numbers():
    content = saved(kind="classifier")
    settings = content.settings.replace(data={"labels": ()})
    classifier = called(Checkpoint(settings, content.weights, content.tokenizers))
    assert classifier.labels == ("0", "1", "2")


def test_codes_of_a_named_set_are_called_by_what_they_mean():
    content = saved(kind="classifier", n_classes=2)

    def of(**data) -> Classifier:
        settings = content.settings.replace(data=data)
        return called(Checkpoint(settings, content.weights, content.tokenizers))

    codes, reviews = of(name="files", labels=("0", "1")), of(name="imdb", labels=("0", "1"))
    assert codes.labels == ("0", "1") and reviews.labels == ("negative", "positive")
    for text in ENGLISH:
        one, other = codes.classify(text), reviews.classify(text)
        assert one.probabilities["1"] == other.probabilities["positive"]
        assert other.label == reviews.spellings[one.label]
    both = {"0": "negative", "1": "positive"}
    assert reviews.spellings == both | {word: word for word in both.values()}
    assert codes.spellings == {"0": "0", "1": "1"}


def test_too_long_a_text_is_classified_by_its_beginning_or_refused(classifier):
    long = "a dog " * 1_000
    with pytest.raises(DataError, match="Text 2 of 2 has"):
        classifier.classify(["tea", long], truncate=False)
    (ids,) = classifier.tokenizer.encode([long])
    short = classifier.tokenizer.decode(ids[:LONGEST])
    assert classifier.classify(long) == classifier.classify(short)
    assert [one.cut for one in classifier.classify(["tea", long])] == [0, len(ids) - LONGEST]


def test_no_more_is_read_or_scored_than_a_table_has_positions_for():
    """Though the settings allow for `LONGEST` subwords."""
    content = [
        saved(kind=kind, positions="learned", max_positions=12)
        for kind in ("translator", "classifier")
    ]
    translator, classifier = map(called, content)
    assert translator.max_length == classifier.max_length == translator.max_target_length == 11
    long = "a dog " * 20
    (ids,) = translator.tokenizer.encode([long])
    cut = translator.tokenizer.decode(ids[:11])
    whole = {"split": False}
    err = translator.translate(long, 2, truncate=True, **whole)
    assert err == translator.translate(cut, 2, **whole)
    assert classifier.classify(long, truncate=True) == classifier.classify(cut)
    with pytest.raises(DataError, match="The sentence has"):
        translator.translate(long)
    targets = ["un", ids[:11]]
    scored = translator.score([long] * 2, targets, truncate=True)
    assert scored == translator.score([cut] * 2, targets)
    with pytest.raises(DataError, match="1 of 2 targets have more than 11 subwords") as caught:
        translator.score(["tea"] * 2, ["un", long])
    assert "target 2: 'a dog" in caught.value.why
    assert called(saved()).max_target_length is None


# Generating


def test_a_generator_goes_on_from_its_prompt(generator):
    err = generator.generate("the old cat", max_length=16)
    assert err.startswith("the old cat") and len(err) > len("the old cat")
    prompts = ["", "the old cat", "a"]
    together = generator.generate(prompts, max_length=16)
    assert all(text.startswith(prompt) for text, prompt in zip(together, prompts, strict=True))
    assert generator.generate(prompts, max_length=16) == together
    assert generator.generate(prompts, max_length=16, seed=1) != together
    assert generator.generate([]) == []


def test_what_is_drawn_for_a_prompt_does_not_depend_on_those_behind_it(generator):
    prompts = ["the old cat sees", "", "a"]
    together = generator.generate(prompts, max_length=16)
    options = SearchOptions(sample=True, max_length=16)
    assert [t.text for (t,) in generator.n_best(prompts[1:], options, first=1)] == together[1:]
    told = "".join(generator.stream("a", number=2, max_length=16))
    assert "a" + told == together[2]
    assert [generator.generate(prompts[:1], max_length=16)] == [together[:1]]
    assert generator.generate(prompts[0], max_length=16) == together[0]


def test_prompts_are_answered_in_batches_within_their_budget(generator, monkeypatch):
    prompts, shapes = ["the old cat sees", "", "a", *ENGLISH] * 2, []
    options = SearchOptions(sample=True, n_best=2, max_length=24)
    expected = generator.n_best(prompts, options)

    def watched(model, source, bos, eos, options, prefixes, numbers, **others):
        shapes.append((len(prefixes), 1 + max(map(len, prefixes))))
        return search(model, source, bos, eos, options, prefixes, numbers, **others)

    monkeypatch.setattr(generator_module, "search", watched)
    found = generator.n_best(prompts, options, batch_tokens=40)
    assert [[t.ids for t in one] for one in found] == [[t.ids for t in one] for one in expected]
    assert len(shapes) > 1 and all(n == 1 or 2 * n * width <= 40 for n, width in shapes)


def test_a_generator_can_search_for_the_likeliest_instead(generator):
    model = torch_model(saved(kind="language-model"))
    (ids,) = generator.tokenizer.encode(["the old"])
    for width in (1, 3):
        err = generator.generate("the old", sample=False, beam_size=width, max_length=8)
        (best,) = beam(after(model, None), width, 8, prefix=ids)
        assert err == generator.tokenizer.decode(best.ids)


@pytest.mark.parametrize("prompt", ["", "the old cat"], ids=repr)
def test_a_stream_of_a_generator_adds_up_to_what_it_generates(generator, prompt):
    for way in ({}, {"sample": False}, {"seed": 3, "temperature": 0.5}):
        told = "".join(generator.stream(prompt, max_length=16, **way))
        assert prompt + told == generator.generate(prompt, max_length=16, **way)


def test_a_prompt_that_leaves_no_room_is_refused(generator):
    with pytest.raises(InputError, match="A prefix of") as caught:
        generator.generate(" ".join(["a dog"] * 200))
    assert "max_length" in caught.value.remedy


# Ensembles


def write_two(folder, *others: Checkpoint) -> list:
    for number, content in enumerate([saved(seed=1), *others]):
        checkpoint.write(content, folder / f"{number}")
    return [folder / f"{number}" for number in range(1 + len(others))]


def test_an_ensemble_of_one_and_the_same_is_that_one(tmp_path, engine):
    one, other = write_two(tmp_path, saved(seed=1))
    alone, together = load(one, engine=engine), load([one, str(other)], engine=engine)
    assert together.translate(TEXTS, max_length=8) == alone.translate(TEXTS, max_length=8)
    assert [s for s, _ in together.score(ENGLISH, FRENCH)] == pytest.approx(
        [s for s, _ in alone.score(ENGLISH, FRENCH)], abs=1e-5
    )


def test_an_ensemble_averages_probabilities(tmp_path, engine):
    folders = write_two(tmp_path, saved(seed=2, decoder_layers=2, positions="rope"))
    together, members = load(folders, engine=engine), [load(f, engine="torch") for f in folders]
    ((score, _),) = together.score(["tea"], [""])
    each = [member.score(["tea"], [""])[0][0] for member in members]
    assert score == pytest.approx(log(sum(map(exp, each)) / 2), abs=1e-5)
    (ids,) = together.source_tokenizer.encode([ENGLISH[1]])
    following = after([member.model for member in members], [*ids, EOS])
    ((best,),) = together.n_best([ENGLISH[1]], SearchOptions(beam_size=3, max_length=8))
    (expected,) = beam(following, 3, 8)
    assert best.ids == expected.ids and best.score == pytest.approx(expected.score, abs=1e-5)
    told = "".join(together.stream(ENGLISH[1], max_length=8))
    assert told == together.translate(ENGLISH[1], 1, max_length=8)


def test_an_ensemble_of_different_subwords_is_refused(tmp_path):
    folders = write_two(tmp_path, saved(SEPARATE))
    with pytest.raises(CheckpointError, match="different subwords") as caught:
        load(folders)
    assert "vocabulary" in caught.value.remedy


@pytest.mark.parametrize("kind", ["classifier", "language-model"])
def test_an_ensemble_of_something_else_is_refused(tmp_path, kind):
    folders = write_two(tmp_path, saved(kind=kind))
    for chosen in (folders, folders[1:]):
        with pytest.raises(CheckpointError, match="models that are not translators"):
            load(chosen)


def test_an_ensemble_of_nothing_is_refused():
    with pytest.raises(InputError, match="An ensemble has no models"):
        load([])


# Loading


def same_model(loaded, content: Checkpoint) -> bool:
    """By its scores: the compiled engine sums in another order than torch."""
    ours = called(content)
    return loaded.score(ENGLISH, FRENCH) == [
        (pytest.approx(score, abs=1e-4), length) for score, length in ours.score(ENGLISH, FRENCH)
    ]


def test_a_run_gives_its_best_and_a_checkpoint_itself(tmp_path):
    run, best, latest = RunFolder(tmp_path / "run"), saved(seed=1), saved(seed=2)
    run.save(best, 1, is_best=True, keep=3)
    folder = run.save(latest, 2, is_best=False, keep=3)
    assert same_model(load(run.path), best) and not same_model(load(run.path), latest)
    assert same_model(load(str(run.path)), best)
    for place in (folder, run.path / "latest"):
        assert same_model(load(place), latest)


def test_a_run_without_a_best_gives_its_latest(tmp_path):
    run, latest = RunFolder(tmp_path), saved(seed=2)
    run.save(saved(seed=1), 1, is_best=False, keep=3)
    run.save(latest, 2, is_best=False, keep=3)
    assert same_model(load(tmp_path), latest)


@pytest.mark.parametrize("sides", [JOINT, SEPARATE], ids=str)
def test_what_is_loaded_translates_as_what_was_saved(tmp_path, sides):
    content = saved(sides)
    checkpoint.write(content, tmp_path / "step-1")
    loaded = load(tmp_path / "step-1")
    assert loaded.settings == content.settings
    one, other = (t.translate(ENGLISH, max_length=20) for t in (loaded, called(content)))
    assert one == other


@pytest.mark.parametrize("kind", CALLED)
def test_each_kind_of_model_is_called_by_what_it_does(tmp_path, kind):
    content = saved(kind=kind)
    checkpoint.write(content, tmp_path / "step-1")
    loaded = glassformer.load(tmp_path / "step-1")
    assert type(loaded) is CALLED[kind]
    assert loaded.settings == content.settings


@pytest.mark.parametrize("kind", CALLED)
def test_the_torch_model_is_there_with_engine_torch_only(tmp_path, kind):
    checkpoint.write(saved(kind=kind), tmp_path / "step-1")
    model = load(tmp_path / "step-1", engine="torch").model
    assert isinstance(model, torch.nn.Module) and not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    with pytest.raises(InputError, match="compiled engine") as caught:
        _ = load(tmp_path / "step-1").model
    assert 'engine="torch"' in caught.value.remedy


def test_an_unknown_engine_is_refused_with_the_names_of_all(tmp_path):
    checkpoint.write(saved(), tmp_path)
    with pytest.raises(InputError, match="no engine 'numba'") as caught:
        load(tmp_path, engine="numba")
    assert "auto, compiled, torch" in caught.value.why


def test_threads_are_passed_on(tmp_path):
    checkpoint.write(saved(), tmp_path)
    before = torch.get_num_threads()
    try:
        load(tmp_path, engine="torch", threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert load(tmp_path, threads=1).decoders[0].threads == 1
    err = {tuple(load(tmp_path, threads=n).translate(TEXTS, max_length=8)) for n in (1, 2, 3)}
    assert len(err) == 1


def test_loaded_classifiers_and_generators_answer_as_what_was_saved(tmp_path):
    contents = {kind: saved(kind=kind) for kind in ("classifier", "language-model")}
    for kind, content in contents.items():
        checkpoint.write(content, tmp_path / kind)
    one, other = load(tmp_path / "classifier"), called(contents["classifier"])
    for text in ENGLISH:
        expected = other.classify(text).probabilities
        assert one.classify(text).probabilities == pytest.approx(expected, abs=1e-5)
    one, other = load(tmp_path / "language-model"), called(contents["language-model"])
    assert one.generate("the old", max_length=20) == other.generate("the old", max_length=20)


@pytest.mark.parametrize("kind", CALLED)
def test_a_quantised_checkpoint_loads_like_any_other(tmp_path, kind, engine):
    """And answers as what `int8` makes of the whole one."""
    content = saved(kind=kind, d_model=32)
    small = quantise_weights(content.weights)
    checkpoint.write(content, tmp_path / "whole")
    checkpoint.write(Checkpoint(content.settings, small, content.tokenizers), tmp_path / "small")
    loaded = load(tmp_path / "small", engine=engine)
    made = load(tmp_path / "whole", int8=True, engine=engine)
    assert type(loaded) is type(made) is CALLED[kind]
    assert loaded.int8 and made.int8 and not load(tmp_path / "whole").int8
    if kind == "translator":
        assert loaded.translate(TEXTS, max_length=8) == made.translate(TEXTS, max_length=8)
        exact = [s for s, _ in load(tmp_path / "whole", engine=engine).score(ENGLISH, FRENCH)]
        for one in (loaded, made):
            assert [s for s, _ in one.score(ENGLISH, FRENCH)] == pytest.approx(exact, rel=0.05)
    elif kind == "classifier":
        assert loaded.classify(ENGLISH) == made.classify(ENGLISH)
    else:
        assert loaded.generate("the old", max_length=9) == made.generate("the old", max_length=9)


def test_a_quantised_checkpoint_can_be_computed_in_fp32(tmp_path):
    content = saved(d_model=32)
    small = quantise_weights(content.weights)
    checkpoint.write(Checkpoint(content.settings, small, content.tokenizers), tmp_path)
    whole = Checkpoint(content.settings, dequantise_weights(small), content.tokenizers)
    loaded = load(tmp_path, int8=False)
    assert not loaded.int8 and same_model(loaded, whole)
    assert same_model(load(tmp_path, engine="torch"), whole)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("positions", get_args(ModelSettings.model_fields["positions"].annotation))
def test_whatever_its_parts_a_model_is_loaded_whole(tmp_path, positions, tied, engine):
    """In fp32 and in INT8: every weight, table and norm is there."""
    content = saved(
        positions=positions, tie_target_output=tied, norm="rms-norm", attention_bias=True
    )
    checkpoint.write(content, tmp_path)
    expected = [s for s, _ in called(content).score(ENGLISH, FRENCH)]
    for near, int8 in ((1e-4, None), (3.0, True)):
        scores = [s for s, _ in load(tmp_path, int8, engine).score(ENGLISH, FRENCH)]
        assert scores == pytest.approx(expected, abs=near)


@pytest.mark.parametrize("small", [False, True], ids=["whole", "quantised"])
def test_weights_of_another_model_are_named(tmp_path, small, engine):
    content = saved()
    weights = quantise_weights(content.weights) if small else content.weights
    settings = content.settings.replace(model={"d_ff": 24})
    checkpoint.write(Checkpoint(settings, weights, content.tokenizers), tmp_path)
    with pytest.raises(CheckpointError, match="weights are of another model"):
        load(tmp_path, engine=engine)


@pytest.mark.parametrize("kind", ["tagger", "masked-language-model"])
def test_what_answers_in_place_cannot_be_called(tmp_path, kind):
    checkpoint.write(saved(kind=kind), tmp_path / "step-1")
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / "step-1")
    assert f"holds a {kind}" in caught.value.what and str(tmp_path) in caught.value.what
    assert "Translators, classifiers, embedders and language models" in caught.value.why
    assert "train.start_from" in caught.value.remedy


@pytest.mark.parametrize("kind", CALLED)
def test_a_model_of_another_kind_than_was_needed_is_named(tmp_path, kind):
    checkpoint.write(saved(kind=kind), tmp_path / "step-1")
    verbs = {"translator": "translate", "classifier": "classify", "language-model": "generate"}
    wanted = {
        "translator": load_translator,
        "classifier": load_classifier,
        "language model": load_generator,
    }
    for what, get in wanted.items():
        if kind == what.replace(" ", "-"):
            assert type(get(tmp_path / "step-1")) is CALLED[kind]
            continue
        with pytest.raises(CheckpointError) as caught:
            get(tmp_path / "step-1")
        assert f"holds a {kind}, not a {what}" in caught.value.what
        assert verbs[kind] in caught.value.why and what in caught.value.remedy


def test_a_translator_of_symbols_has_no_text_to_be_called_with(tmp_path):
    checkpoint.write(saved(sides=[]), tmp_path / "step-1")
    with pytest.raises(CheckpointError, match="holds a translator for 'grammar'") as caught:
        load(tmp_path / "step-1")
    assert "symbols" in caught.value.why and "of text" in caught.value.remedy


def test_a_folder_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path)
    assert str(tmp_path) in caught.value.what
    assert "manifest.json" in caught.value.why
    assert "folder of a run" in caught.value.remedy


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / "absent")
    assert str(tmp_path / "absent") in caught.value.what
    assert "folder of a run" in caught.value.why and "by its folder" in caught.value.remedy


def test_a_bundled_model_is_loaded_by_its_name_unless_a_folder_is_called_so(tmp_path, monkeypatch):
    root = bundle(monkeypatch, tmp_path / "package", "en-fr", "sentiment")
    monkeypatch.chdir(tmp_path)
    assert type(glassformer.load("sentiment")) is Classifier
    (err,) = load("en-fr").translate(ENGLISH[:1])
    assert err == load(root / "en-fr").translate(ENGLISH[0])
    assert load(["en-fr", root / "en-fr"]).translate(ENGLISH[0]) == err
    with pytest.raises(CheckpointError, match="en-fr holds a translator, not a classifier"):
        load_classifier("en-fr")
    checkpoint.write(saved(kind="language-model"), tmp_path / "en-fr")
    assert type(load("en-fr")) is Generator


def test_padding_is_no_word_of_any_vocabulary():
    """The ids of texts never hold it, so that it can be told from them."""
    for tokenizer in TOKENIZERS.values():
        assert PAD not in {i for ids in tokenizer.encode([*ENGLISH, *FRENCH, "<pad>"]) for i in ids}


def test_each_text_has_its_own_prefix_or_target(translator):
    with pytest.raises(InputError, match="2 texts were given with 1 prefixes"):
        translator.n_best(ENGLISH[:2], SearchOptions(), ["un"])
    with pytest.raises(InputError, match="2 texts were given with 1 targets"):
        translator.score(ENGLISH[:2], FRENCH[:1])
