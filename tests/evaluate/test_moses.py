"""Text as the published references of Multi30k are."""

import sys

import pytest

from glassformer.errors import MissingPackageError
from glassformer.evaluate.moses import as_published, differing, is_available

# Raw and published, in the manner of Moses' scripts: each line shows one of their habits.
PAIRS = {
    "A man's dog; it (really) runs.": "a man &apos;s dog ; it ( really ) runs .",
    "Two—or three—cats & a [dog].": "two - or three - cats &amp; a &#91; dog &#93; .",
    "Mr. Smith said “hello”, twice…": "mr. smith said &quot; hello , &quot; twice ...",
}
FRENCH = {
    "L'homme s’en va à l'école.": "l&apos; homme s&apos; en va à l&apos; école .",
    "Il crie « au feu. »": "il crie &quot; au feu . &quot;",
    'Il crie "au feu."': "il crie &quot; au feu &quot; .",  # seen only before the line's end
    "Un coup d’œil.": "un coup d &quot; œil .",  # an accented letter is none to the old scripts
}


@pytest.mark.parametrize(("language", "pairs"), [("en", PAIRS), ("fr", FRENCH)])
def test_raw_text_becomes_what_is_published(language, pairs):
    pytest.importorskip("sacremoses")
    assert as_published(pairs, language) == list(pairs.values())
    assert differing(pairs, pairs.values(), language) == []


def test_lines_that_differ_are_counted_from_one():
    pytest.importorskip("sacremoses")
    assert differing(["A cat.", "A dog.", ""], ["a cat .", "a dog.", ""], "en") == [2]
    with pytest.raises(ValueError, match="zip"):
        differing(["A cat."], [], "en")


def test_tokenising_again_is_not_the_same_so_it_is_done_once():
    pytest.importorskip("sacremoses")
    (once,) = as_published(["it's"], "en")
    assert as_published([once], "en") != [once]


def test_without_sacremoses_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    assert not is_available()
    with pytest.raises(MissingPackageError, match=r"glassformer\[moses\]"):
        as_published([], "fr")
