"""Word splitting, and the subwords of each word."""

from unicodedata import normalize

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import grammar
from glassformer.data.tokenizer import Tokenizer
from glassformer.inspect.word_attention import shares, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The dog sleeps.", "The dog sleeps ."),
        ("L'homme n'a qu'un vélo.", "L' homme n' a qu' un vélo ."),
        ("l’été, d’abord", "l’ été , d’ abord"),
        ("The king's dogs don't bark.", "The king 's dogs do n't bark ."),
        ("We'll see: they're here, I'd say", "We 'll see : they 're here , I 'd say"),
        ("Aujourd'hui, est-ce qu'il dort ?", "Aujourd'hui , est-ce qu' il dort ?"),
        ("At 10:30 it cost 1,000.50!", "At 10:30 it cost 1,000.50 !"),
        ("« Oui », dit-elle... (ou non)", "« Oui » , dit-elle . . . ( ou non )"),
        ("the dogs' bones", "the dogs ' bones"),
        ("  two   spaces ", "two spaces"),
        ("", ""),
    ],
)  # fmt: skip
def test_punctuation_is_split_off(text, words):
    assert split_words(text) == tuple(words.split())


def test_split_words_equal_the_words_of_the_grammar():
    for pair in grammar.pairs("train", 300):
        assert split_words(pair.source) == pair.source_words
        assert split_words(pair.target) == pair.target_words


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_combining_accent_stays_in_its_word(form):
    text = normalize(form, "L'élève dînait.")
    assert split_words(text) == tuple(normalize(form, w) for w in ("L'", "élève", "dînait", "."))


@given(st.text())
def test_no_character_is_lost(text):
    assert "".join(split_words(text)) == "".join(text.split())


# Subwords and their words


ELIDED = "Qui s'habille à l'école, l'été ?"


ELIDED_WORDS = ("Qui", "s'", "habille", "à", "l'", "école", ",", "l'", "été", "?")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["Qui", " s'", "habille", " à"], [{0: 1}, {1: 1}, {2: 1}, {3: 1}]),
        (["", "Qu", "i", " ", "s", "'", "hab"], [{}, {0: 1}, {0: 1}, {}, {1: 1}, {1: 1}, {2: 1}]),
        (["Qui", " s'ha", "bille"], [{0: 1}, {1: 0.5, 2: 0.5}, {2: 1}]),
        (["Qui s", "'habille à l", "'é"],
         [{0: 3 / 4, 1: 1 / 4}, {1: 0.1, 2: 0.7, 3: 0.1, 4: 0.1}, {4: 0.5, 5: 0.5}]),
    ],
    ids=lambda value: "|".join(value) if isinstance(value[0], str) else "",
)  # fmt: skip
def test_a_subword_is_shared_by_its_characters(pieces, expected):
    ends = [len("".join(pieces[: i + 1])) for i in range(len(pieces))]
    spans = list(zip([0, *ends], ends, strict=False))
    assert "".join(pieces) == ELIDED[: ends[-1]]
    found = shares(spans, ELIDED, ELIDED_WORDS)
    wanted = [[row.get(i, 0.0) for i in range(len(ELIDED_WORDS))] for row in expected]
    torch.testing.assert_close(found, torch.tensor(wanted))


def test_a_repeated_word_is_two_words():
    text = "the dog and the other"
    spans = [(0, 3), (3, 7), (7, 11), (11, 15), (15, 21)]
    assert torch.equal(shares(spans, text, text.split()), torch.eye(5))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_shares_of_trained_subwords_sum_to_the_words(kind):
    pairs = list(grammar.pairs("train", 60))
    tokenizer = Tokenizer.train([t for p in pairs for t in (p.source, p.target)], 100, kind)
    for pair in pairs:
        for text, words in [(pair.source, pair.source_words), (pair.target, pair.target_words)]:
            spans = tokenizer.spans(text)
            letters = torch.tensor([len(text[a:b].replace(" ", "")) for a, b in spans])
            spelt = letters.float() @ shares(spans, text, words)
            torch.testing.assert_close(spelt, torch.tensor([float(len(w)) for w in words]))
