"""Typography: one plain form, reached in one step, and French print that leads back to it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.typography import NARROW, NO_BREAK, normalize, typeset, typeset_pieces

LANGUAGE = st.sampled_from(["en", "fr", None])
# Text that has much of what the rules are about.
PIECES = st.sampled_from(
    ["l'", "été", "mot", "42", "12 500", "50", "%", "?", "!", ";", ":", "...", '"', "«", "»", "’",
     "“", "”", " ", " ", NO_BREAK, NARROW, "(", ")", ",", ".", "\u200b", "😀", "https://a.fr/b?c=d",
     "x@y.fr", ":)", "10:30", "–"]
)  # fmt: skip
FRENCH = st.lists(PIECES, max_size=14).map("".join)
ANY = st.one_of(st.text(), FRENCH)


@given(ANY, LANGUAGE)
def test_normalising_is_idempotent(text, language):
    plain = normalize(text, language)
    assert normalize(plain, language) == plain


@given(ANY, LANGUAGE)
def test_normalised_text_has_no_typographic_characters_or_double_spaces(text, language):
    plain = normalize(text, language)
    assert not set(plain) & set("‘’“”„«»…\u00ad\u200b\ufeff\u00a0\u202f")
    assert "  " not in plain and plain == plain.strip()


@given(ANY)
def test_typeset_french_is_the_same_text_once_normalised(text):
    plain = normalize(text, "fr")
    assert normalize(typeset(plain, "fr"), "fr") == plain


@given(ANY)
def test_normalising_keeps_every_letter_and_digit(text):
    composed = unicodedata.normalize("NFC", text)
    before = [c for c in composed if c.isalnum() and c != "ʼ"]
    assert [c for c in normalize(text, "fr") if c.isalnum()] == before


@pytest.mark.parametrize(
    ("found", "plain"),
    [
        ("C’est l’été…", "C'est l'été..."),
        ("Où est-il?", "Où est-il ?"),
        (f"Où est-il{NARROW}?", "Où est-il ?"),
        ("Vraiment?!", "Vraiment ?!"),
        ("«Bonjour», dit-elle: oui!", '"Bonjour", dit-elle : oui !'),
        (f"«{NO_BREAK}Bonjour{NO_BREAK}»", '"Bonjour"'),
        ("50% des gens", "50 % des gens"),
        ("(vraiment?)", "(vraiment ?)"),
        ("à 10:30", "à 10:30"),
        ("https://a.fr/b?c=d", "https://a.fr/b?c=d"),
        ("a\u200bb", "ab"),
        ("e\u00ad\u0301te\u0301", "été"),
    ],
)
def test_french_is_spaced_by_its_rules(found, plain):
    assert normalize(found, "fr") == plain


@pytest.mark.parametrize(
    "text", ["Really?", "a ? b : c", "50%", "x² + ½ = 3", "👨‍👩‍👧 漢字 ﷺ", "`a`"]
)
def test_english_and_other_scripts_are_left_as_they_are(text):
    assert normalize(text, "en") == text


@pytest.mark.parametrize(
    ("plain", "printed"),
    [
        ("Où est l'hôtel ?", f"Où est l’hôtel{NARROW}?"),
        ("Le prix : 50 %", f"Le prix{NO_BREAK}: 50{NO_BREAK}%"),
        ('Il dit "oui".', f"Il dit «{NO_BREAK}oui{NO_BREAK}»."),
        ("12 500 personnes...", f"12{NARROW}500 personnes…"),
        ("https://a.fr/l'x ?", f"https://a.fr/l'x{NARROW}?"),
        ('5" et plus', '5" et plus'),
    ],
)
def test_french_is_typeset_as_in_print(plain, printed):
    assert typeset(plain, "fr") == printed


def test_english_is_not_typeset():
    assert typeset('It\'s "fine"...', "en") == 'It\'s "fine"...'


@given(ANY, LANGUAGE.filter(bool), st.integers(1, 5))
def test_text_is_typeset_in_pieces_as_it_is_whole(text, language, size):
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert "".join(typeset_pieces(pieces, language)) == typeset(text, language)


def test_typeset_pieces_come_word_by_word_and_quotes_whole():
    pieces = ["Il", " a", " dit", ' "', "oui", " oui", '"', " ?", " Bien", " sûr", "."]
    found = list(typeset_pieces(pieces, "fr"))
    assert found == ["Il", " a", f" dit «{NO_BREAK}oui oui{NO_BREAK}»{NARROW}?", " Bien", " sûr."]
    assert list(typeset_pieces(pieces, "en")) == pieces
