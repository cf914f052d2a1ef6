"""Noise changes the pairs it should, on both sides alike, and leaves the others to the bit."""

import numpy as np
import pytest

from glassformer.config import NoiseSettings
from glassformer.data.noise import Noise, capitalise, change_case, join, strip_final
from glassformer.data.tokenizer import Tokenizer

PAIRS = [(f"The dog number {i} runs.", f"Le chien numéro {i} court.") for i in range(300)]


def learned() -> Tokenizer:
    text = [side for pair in PAIRS for side in pair]
    return Tokenizer.train(text, 420, byte_fallback=True, identity=True)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learned()


def noised(tokenizer, seed: int = 1, max_length: int = 128, groups=None, **shares):
    sides = [tokenizer.encode(column) for column in zip(*PAIRS, strict=True)]
    noise = Noise(NoiseSettings(**shares), [tokenizer] * 2, ("en", "fr"), max_length)
    groups = np.zeros(len(PAIRS), np.int64) if groups is None else groups
    changed = noise(sides, groups, seed)
    return [tuple(tokenizer.decode(list(side[i])) for side in changed) for i in range(len(PAIRS))]


def test_without_shares_nothing_changes(tokenizer):
    assert noised(tokenizer) == PAIRS


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("lower", lambda i: change_case(PAIRS[i], upper=False)),
        ("upper", lambda i: change_case(PAIRS[i], upper=True)),
        ("unpunctuated", lambda i: strip_final(PAIRS[i])),
        ("joined", lambda i: join(PAIRS[i], PAIRS[i + 1])),
    ],
)
def test_a_pair_is_changed_on_both_sides_or_stays(tokenizer, kind, expected):
    after = noised(tokenizer, **{kind: 0.4})
    changed = [i for i, pair in enumerate(after) if pair != PAIRS[i]]
    assert 0.3 < len(changed) / len(PAIRS) < 0.5
    assert all(after[i] == expected(i) for i in changed)


def test_copied_pairs_have_their_share(tokenizer):
    after = noised(tokenizer, copied=0.4)
    assert 0.3 < sum(a != b for a, b in zip(after, PAIRS, strict=True)) / len(PAIRS) < 0.5


def test_the_draws_are_a_function_of_the_seed(tokenizer):
    shares = {"lower": 0.2, "upper": 0.1, "unpunctuated": 0.3, "joined": 0.2, "copied": 0.3}
    assert noised(tokenizer, 5, **shares) == noised(tokenizer, 5, **shares)
    assert noised(tokenizer, 5, **shares) != noised(tokenizer, 6, **shares)


def test_sentences_of_different_sources_are_not_joined(tokenizer):
    alone = np.arange(len(PAIRS))
    assert noised(tokenizer, groups=alone, joined=0.99) == PAIRS


def test_a_pair_that_would_be_too_long_stays_as_it_is(tokenizer):
    longest = max(len(ids) for side in zip(*PAIRS, strict=True) for ids in tokenizer.encode(side))
    assert noised(tokenizer, max_length=longest, joined=0.99) == PAIRS


def test_only_whole_sentences_are_joined():
    a, b, word = ("A.", "Un."), ("B!", "Deux !"), ("C", "trois")
    assert join(a, b) == ("A. B!", "Un. Deux !")
    assert join(a, word) == a and join(word, b) == word


def test_punctuation_alone_is_not_stripped():
    assert strip_final(("Yes.", "...")) == ("Yes.", "...")
    assert strip_final(("Really?", "Vraiment ?")) == ("Really", "Vraiment")


def test_both_sides_start_with_a_capital_and_the_rest_stays():
    assert capitalise(("dog", "chien")) == ("Dog", "Chien")
    assert capitalise(("élan vital", "NASA")) == ("Élan vital", "NASA")


def test_capitalised_pairs_have_their_share(tokenizer, monkeypatch):
    small = [(f"the dog {i}", f"le chien {i}") for i in range(len(PAIRS))]
    monkeypatch.setitem(globals(), "PAIRS", small)
    after = noised(tokenizer, capitalised=0.4)
    changed = [i for i, pair in enumerate(after) if pair != small[i]]
    assert 0.3 < len(changed) / len(small) < 0.5
    assert all(after[i] == capitalise(small[i]) for i in changed)
