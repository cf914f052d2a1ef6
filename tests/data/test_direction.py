"""Tags: put in front by code, never by text; and the language of a text, guessed."""

import subprocess
import sys

import numpy as np
import pytest

from glassformer.config import DataSettings
from glassformer.data.direction import (
    BothDirections,
    SourceTokenizer,
    guess_language,
    is_written_in,
    tags,
    targets,
    tokenizers_for,
)
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import DataError

PAIRS = [(f"the dog {i}", f"le chien {i}") for i in range(60)]
BOTH = DataSettings(directions="both", typography=True)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    text = [side for pair in PAIRS for side in pair]
    return Tokenizer.train(text, 420, byte_fallback=True, identity=True, tags=tags(BOTH))


def test_a_model_of_both_directions_writes_both_languages():
    assert targets(BOTH) == ("fr", "en") and tags(BOTH) == ("<2en>", "<2fr>")
    assert targets(DataSettings()) == ("fr",) and tags(DataSettings()) == ()


@pytest.mark.parametrize("text", ["<2fr>", "<2en> hello", "a<2fr>b", "</s>", "<pad> <s>"])
def test_text_that_reads_like_a_tag_is_only_text(tokenizer, text):
    (ids,) = tokenizer.encode([text])
    reserved = {tokenizer.tag_id(tag) for tag in tags(BOTH)} | set(range(4))
    assert not reserved & set(ids) and tokenizer.decode(ids) == text


def test_a_source_is_normalised_and_begins_with_the_tag_of_its_target(tokenizer):
    english, french = (SourceTokenizer(tokenizer, BOTH, to) for to in ("fr", "en"))
    assert english.encode(["the  dog"]) == [
        [tokenizer.tag_id("<2fr>"), *tokenizer.encode(["the dog"])[0]]
    ]
    (ids,) = french.encode(["le chien?"])
    assert ids[0] == tokenizer.tag_id("<2en>") and tokenizer.decode(ids) == "le chien ?"


def test_an_empty_source_stays_empty(tokenizer):
    source = SourceTokenizer(tokenizer, BOTH, "fr")
    assert source.encode(["", "  "]) == [[], []] and source.spans("") == []


def test_there_is_a_span_for_every_id(tokenizer):
    source = SourceTokenizer(tokenizer, BOTH, "fr")
    assert len(source.spans("the dog 12")) == len(source.encode(["the dog 12"])[0])


def test_only_the_source_is_tagged(tokenizer):
    sides = tokenizers_for(BOTH, {"joint": tokenizer}, "fr")
    assert sides["target"].encode(["le chien"]) == tokenizer.encode(["le chien"])
    assert sides["source"].fingerprint == sides["target"].fingerprint


def test_pairs_are_turned_around_whole(tokenizer):
    sides = [tokenizer.encode(column) for column in zip(*PAIRS, strict=True)]
    x, y = BothDirections(tokenizer, BOTH)(sides, np.zeros(len(PAIRS), np.int64), seed=3)
    forward = [int(ids[0]) == tokenizer.tag_id("<2fr>") for ids in x]
    assert 0 < sum(forward) < len(PAIRS)
    for (en, fr), ahead, source, target in zip(PAIRS, forward, x, y, strict=True):
        texts = tokenizer.decode(list(source)), tokenizer.decode(list(target))
        assert texts == ((en, fr) if ahead else (fr, en))
        assert ahead or int(source[0]) == tokenizer.tag_id("<2en>")


def test_subwords_without_tags_are_refused():
    plain = Tokenizer.train([side for pair in PAIRS for side in pair], 60)
    with pytest.raises(DataError, match="no tag <2fr>"):
        SourceTokenizer(plain, BOTH, "fr")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the train station?", "en"),
        ("Où est la gare ?", "fr"),
        ("I would like to cancel my order.", "en"),
        ("Je voudrais annuler ma commande.", "fr"),
        ("Bonjour", "fr"),
        ("LE CHAT DORT", "fr"),
        ("the cafés of Paris are all open", "en"),
        ("12.50", "en"),
        ("Vitamin C, vitamin D", "en"),
        ("I'd like vitamin D", "en"),
        ("L’eau d’ici", "fr"),
        ("", "en"),
    ],
)
def test_the_language_of_a_text_is_guessed(text, language):
    assert guess_language(text) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Bonjour, comment allez-vous ?", "fr"),
        ("Il y a 25 personnes dans la salle.", "fr"),
        ("The children are here.", "en"),
        ("Merci", None),
        ("Voilà: the house is in Paris.", None),
        ("Vitamin C, vitamin D", None),
        ("Paris", None),
        ("", None),
    ],
)
def test_a_language_is_certain_only_if_no_word_is_of_another(text, language):
    assert [one for one in ("en", "fr") if is_written_in(text, one)] == [language] * bool(language)


def test_sources_are_read_without_torch():
    """Inference prepares text with these modules and has no torch."""
    script = (
        "import sys; import glassformer.data.direction, glassformer.data.typography; "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0
