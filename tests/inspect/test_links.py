"""Links: from attention, their error rate and mutual information."""

from collections import Counter
from dataclasses import dataclass
from math import log2

import numpy as np
import pytest
import torch

from glassformer.inspect.links import (
    Tally,
    at_random,
    diagonal,
    error_rate,
    links,
    mutual_information,
    one_true_link,
    pharaoh,
)


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]


def test_each_target_word_is_linked_to_its_strongest_source_word():
    words = torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.1], [0.0, 0.0, 0.0]])
    assert links(words) == {(1, 0), (0, 1)}


def test_pharaoh_format():
    assert pharaoh(frozenset({(10, 1), (2, 3), (2, 0)})) == "2-0 2-3 10-1"
    assert pharaoh(frozenset()) == ""


# Error rates


def test_error_rates_by_hand():
    a, b, c, d = (0, 0), (1, 1), (2, 2), (1, 2)
    assert error_rate([{a, b}], [{a, b}]) == 0
    assert error_rate([{a}], [{b}]) == 1
    assert error_rate([{a, b}], [{a, d}]) == pytest.approx(1 - 2 * 1 / 4)
    assert error_rate([{a, b, c}], [{a}]) == pytest.approx(1 - 2 * 1 / 4)
    assert error_rate([{a}], [{a, b, c}]) == pytest.approx(1 - 2 * 1 / 4)
    tally = Tally.of([{a, b, c}, {a}], [{a}, {a, b}])
    assert (tally.precision, tally.recall) == pytest.approx((2 / 4, 2 / 3))


def test_the_error_rate_counts_links_not_sentences():
    found, gold = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [{(1, 0)}, {(0, 0), (1, 1), (2, 2)}]
    assert error_rate(found, gold) == pytest.approx(1 - 2 * 3 / 8)


def test_every_sentence_needs_gold_links():
    with pytest.raises(ValueError, match="shorter"):
        error_rate([{(0, 0)}, {(0, 0)}], [{(0, 0)}])


def test_the_interval_is_that_of_a_bootstrap_over_sentences():
    random = np.random.default_rng(0)
    common = random.integers(0, 11, 400)
    tally = Tally(np.stack([common, np.full(400, 10), np.full(400, 10)], 1))
    low, high = tally.interval()
    # Here the rate is a mean over sentences, whose error is known.
    error = 1.96 * (common / 10).std() / 400**0.5
    assert (low, high) == pytest.approx(
        (tally.error_rate - error, tally.error_rate + error), abs=error / 5
    )
    assert tally.interval() == (low, high)
    narrow = Tally(np.repeat(tally.counts, 4, 0)).interval()
    assert high - low == pytest.approx(2 * (narrow[1] - narrow[0]), rel=0.2)


def test_equal_sentences_have_an_interval_of_zero_width():
    tally = Tally(np.array([[2, 4, 4]] * 5))
    assert tally.interval() == (tally.error_rate,) * 2 == (0.5, 0.5)


# Baselines


def words(source: int, target: int, gold=()) -> Pair:
    return Pair("", "", tuple("a" * source), tuple("b" * target), frozenset(gold))


def test_diagonal_links():
    assert diagonal(words(4, 4)) == {(i, i) for i in range(4)}
    assert diagonal(words(2, 4)) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal(words(6, 2)) == {(1, 0), (4, 1)}
    assert diagonal(words(1, 3)) == {(0, 0), (0, 1), (0, 2)}


def test_random_links_are_uniform():
    random = np.random.default_rng(0)
    found = at_random(words(4, 2_000), random)
    assert {target for _, target in found} == set(range(2_000))
    assert all(abs(n - 500) < 100 for n in Counter(source for source, _ in found).values())


def test_one_gold_link_per_word_is_the_lowest_error_rate():
    pair = words(3, 3, {(0, 0), (1, 0), (2, 2)})
    found = one_true_link(pair)
    assert found <= pair.alignment and {target for _, target in found} == {0, 2}
    assert error_rate([found], [pair.alignment]) == pytest.approx(1 - 2 * 2 / 5)


# Mutual information


def test_mutual_information_equals_its_entropies():
    counts = torch.randint(0, 5, (4, 3)).tolist()
    pairs = Counter(
        {(str(a), str(b)): n for a, row in enumerate(counts) for b, n in enumerate(row)}
    )
    joint = np.array(counts) / np.sum(counts)

    def entropy(p):
        return -sum(x * log2(x) for x in p.ravel() if x)

    expected = entropy(joint.sum(0)) + entropy(joint.sum(1)) - entropy(joint)
    assert mutual_information(+pairs) == pytest.approx(expected)
    assert mutual_information(Counter({(c, c.upper()): 3 for c in "abcd"})) == pytest.approx(2)
    assert mutual_information(Counter({(a, b): 1 for a in "ab" for b in "xyz"})) == pytest.approx(0)
