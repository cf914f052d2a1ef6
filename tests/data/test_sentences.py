"""A text is split where its sentences end, and joined again with its layout."""

from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.data.sentences import sentences, split_text
from glassformer.errors import InputError


@pytest.mark.parametrize(
    "text",
    [
        "A man rides. | A dog runs.",
        "Really? | Yes! | No...",
        "“Is it here?” | She was not sure.",
        "He left (at last). | Nobody cared.",
        "« Oui. » | Il part.",
        "Bonjour ! | Ça va ? | Très bien.",
        "¿Qué? | ¡Nada!",
        "– Oui. | – Non.",
        "He was born in 1990. | Then came others.",
        "It costs 3.50. | 20 people bought it.",
        "It was I. | Nobody else.",
        "He said no. | Then he left.",
        "Give it to me. | Thanks.",
        "Ce qu'il y a. | Puis rien.",
        "We met at 5 p.m. | She was late.",
        "Tea, milk, etc. | All of it.",
        "Wait… | What?",
        "Great! 😀 | See you tomorrow. 👍🏽❤️ | Bye!",
        "Visit https://example.com/a.html. | Write to jo@example.org. | Open notes.txt. | Done.",
        "Il fait 3,5 °C. | Mme Curie est née en 1867. | MM. Dupont et Durand arrivent.",
        "她来了。|他走了。|好！",
        "彼は「はい。」|と言った。",
        "Πού πάμε. | Εδώ.",
    ],
)
def test_sentences_are_cut_where_they_end(text: str) -> None:
    expected = [part.strip() for part in text.split("|")]
    assert sentences(text.replace(" | ", " ").replace("|", "")) == expected
    assert sentences(text.replace(" | ", "  \t").replace("|", "")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Mr. Smith and Mrs. Jones met Dr. Who in St. Ives.",
        "M. Dupont et Mme. Durand, av. J.-C.",
        "MM. Dupont et Durand",
        "J. R. R. Tolkien wrote it.",
        "The U.S. Army came.",
        "Un avion de l'U.S. Air Force et un autre de l’U.S. Navy.",
        "Roe v. Wade, par ex. Page 3",
        "Is No. 5 on p. 12, e.g. Fig. 3?",
        "As Vaswani et al. (2017) show, chap. 3 is enough.",
        "It begins on Dec. 5 of that year.",
        "1. The first of a list",
        "“Stop!” he said.",
        "Well... perhaps it is so.",
        "« Hélas ! dit-il.",
        "A file called a.txt at example.com, version 1.2.3",
        "no punctuation at all",
        "...",
        "Hm. ☃",
    ],
)
def test_one_sentence_stays_one(text: str) -> None:
    assert sentences(text) == [text]
    assert sentences(f"{text}\n") == [text]


@pytest.mark.parametrize("text", ["", " ", "\n\t"], ids=repr)
def test_nothing_is_one_empty_sentence(text: str) -> None:
    assert sentences(text) == [""]


CHARACTERS = st.sampled_from(" \t\n\r\u2028.!?…。\"'»«)(–-*>#1aAéM,:@/\0\x1b☃😀")


@given(st.text(CHARACTERS))
def test_nothing_but_space_is_lost_and_no_sentence_is_empty(text: str) -> None:
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(found) or found == [""]
    assert all(one == one.strip() for one in found)


# The layout


@given(st.text(CHARACTERS) | st.text())
@example("one line that is long enough to be wrapped here\nand its end.\r\n\r\n  - Item.\n")
def test_joining_the_unchanged_sentences_gives_the_text_back(text: str) -> None:
    segments = split_text(text)
    assert segments.join(segments.sentences) == text


@given(st.text(CHARACTERS) | st.text())
def test_every_sentence_has_a_letter_and_no_space_around_it(text: str) -> None:
    for sentence in split_text(text).sentences:
        assert sentence == sentence.strip()
        assert any(character.isalpha() for character in sentence)


TEXT = """\
# A title

Dear Dr. Brown,  thank you. It costs 3.50.

    - First item. It has two sentences.
    * second item
    2. Third item
    b) Fourth item
--------
https://example.com/a?b=c
someone@example.com
12:30
> Quoted text!
"""


def test_layout_markers_and_lines_without_words_are_not_translated() -> None:
    segments = split_text(TEXT)
    assert list(segments.sentences) == [
        "A title",
        "Dear Dr. Brown,  thank you.",
        "It costs 3.50.",
        "First item.",
        "It has two sentences.",
        "second item",
        "Third item",
        "Fourth item",
        "Quoted text!",
    ]
    assert segments.join(["X"] * 9) == (
        "# X\n\nX X\n\n    - X X\n    * X\n    2. X\n    b) X\n--------\n"
        "https://example.com/a?b=c\nsomeone@example.com\n12:30\n> X\n"
    )


@pytest.mark.parametrize(
    "text", ["First line\nSecond line", "milk\neggs\r\nbread", "Dear all,\nplease read:\nthis"]
)
def test_short_lines_are_sentences_of_their_own(text: str) -> None:
    assert list(split_text(text).sentences) == text.splitlines()


WRAPPED = (
    "This paragraph was wrapped by an editor that\n"
    "breaks its lines. It has a second sentence, which\n"
    "also goes on. The third ends here."
)


def test_a_wrapped_paragraph_is_split_by_sentences_and_wrapped_again() -> None:
    segments = split_text(WRAPPED)
    assert [" ".join(one.split()) for one in segments.sentences] == [
        "This paragraph was wrapped by an editor that breaks its lines.",
        "It has a second sentence, which also goes on.",
        "The third ends here.",
    ]
    texts = [
        "Ce paragraphe a été coupé par un éditeur qui coupe ses lignes.",
        "Il a une deuxième phrase, qui continue aussi.",
        "La troisième finit ici.",
    ]
    joined = segments.join(texts)
    assert joined.count("\n") == WRAPPED.count("\n")
    assert joined.split() == " ".join(texts).split()


def test_a_translation_with_fewer_words_than_lines_keeps_all_its_words() -> None:
    assert split_text(WRAPPED).join(["Un", "", "Trois"]) == "Un  Trois"


def test_a_wrong_number_of_translations_is_refused() -> None:
    with pytest.raises(InputError, match="1 translations were given for 2 sentences"):
        split_text("One. Two.").join(["Un."])


@pytest.mark.parametrize("text", ["One. Two! Three?", "A.\n- B. C.\n\nD", "", "..."])
def test_sentences_that_stay_are_part_of_the_gaps(text: str) -> None:
    segments = split_text(text)
    for stays in (set[str](), set(segments.sentences[1:]), set(segments.sentences)):
        left = segments.leave(stays.__contains__)
        assert left.sentences == tuple(one for one in segments.sentences if one not in stays)
        assert left.join(left.sentences) == text


PIECES = [".", "Mr. ", "A. ", '."', "a. B", ". ", "? »", "「", "\n", "a\n", "- ", "> ", " ", "! 😀"]
PIECES += ["a long line of more than forty columns without an end\n", "@", "Is it so? Yes.\r\n"]


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_time_grows_linearly_with_the_text(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = process_time()
    segments = split_text(text)
    segments.join([f"{one} " for one in segments.sentences])
    assert process_time() - start < 20  # seconds; quadratic time would take minutes
