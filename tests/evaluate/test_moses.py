"""Tokenisation of the published references of Multi30k."""

import sys

import pytest

from glassformer.errors import MissingPackageError
from glassformer.evaluate.moses import as_published, is_available

# Raw and published, in the manner of Moses' scripts: each line shows one rule.
PAIRS = {
    "A man's dog; it (really) runs.": "a man &apos;s dog ; it ( really ) runs .",
    "Two—or three—cats & a [dog].": "two - or three - cats &amp; a &#91; dog &#93; .",
    "Mr. Smith said “hello”, twice…": "mr. smith said &quot; hello , &quot; twice ...",
}
FRENCH = {
    "L'homme s’en va à l'école.": "l&apos; homme s&apos; en va à l&apos; école .",
    "Il crie « au feu. »": "il crie &quot; au feu . &quot;",
    'Il crie "au feu."': "il crie &quot; au feu &quot; .",  # seen only before the line's end
    "Un coup d’œil.": "un coup d &quot; œil .",  # the old scripts take œ for no letter
}


@pytest.mark.parametrize(("language", "pairs"), [("en", PAIRS), ("fr", FRENCH)])
def test_raw_text_becomes_the_published_text(language, pairs):
    pytest.importorskip("sacremoses")
    assert as_published(pairs, language) == list(pairs.values())


def test_tokenising_twice_differs_from_tokenising_once():
    pytest.importorskip("sacremoses")
    (once,) = as_published(["it's"], "en")
    assert as_published([once], "en") != [once]


def test_without_sacremoses_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    assert not is_available()
    with pytest.raises(MissingPackageError, match=r"glassformer\[moses\]"):
        as_published([], "fr")
