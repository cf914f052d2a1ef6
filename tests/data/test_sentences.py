"""A text is cut where its sentences end, and nothing of it is lost."""

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.sentences import sentences


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
        "他来了。|她走了。|好！",
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
        "J. R. R. Tolkien wrote it.",
        "The U.S. Army came.",
        "Is No. 5 on p. 12, e.g. Fig. 3?",
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


@given(st.text(st.sampled_from(" \t.!?…。\"'»«)(–1aAéM\0\x1b☃")))
def test_nothing_but_space_is_lost_and_no_sentence_is_empty(text: str) -> None:
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(found) or found == [""]
    assert all(one == one.strip() for one in found)


@pytest.mark.parametrize("piece", [".", "Mr. ", "A. ", '."', "a. B", ". ", "? »", "「"], ids=repr)
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    start = perf_counter()
    sentences(piece * 50_000)
    assert perf_counter() - start < 2  # were it with the square, minutes
