"""Sampling: tokens are drawn as often as their probabilities require."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decode.oracles import TreeDecoder, assert_same, remembering, tree
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.options import SearchOptions
from glassformer.decode.sample import Sampler, nucleus
from glassformer.decode.search import search

V = 8
# A chi-square with up to 7 degrees of freedom exceeds this once in a million.
SUSPECT = 40.0


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(logits):
    p = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return (p / p.sum()).tolist()


def find(trees, limit, numbers=None, **options):
    asked = SearchOptions(**{"max_length": limit, **options})
    rows = [[i] for i in range(len(trees))]
    return search(TreeDecoder(trees), rows, BOS, EOS, asked, None, numbers)


def drawn(row, times, **options):
    """How often each token is drawn from one row of logits."""
    sampler = Sampler(SearchOptions(sample=True, n_best=times, **options), [0])
    values, ids = sampler.draw(row[None, None], np.arange(1), np.zeros(1, bool))
    assert np.array_equal(values[0, 0], row[ids[0, 0]])
    return Counter(ids[0, 0].tolist())


def surprise(counts, probabilities):
    """Pearson's chi-square of counts against probabilities."""
    n = sum(counts.values())
    assert all(probabilities[token] > 0 for token in counts)
    return sum(
        (counts[token] - n * p) ** 2 / (n * p) for token, p in enumerate(probabilities) if p > 0
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_their_probabilities_require(temperature):
    row = normal(V)
    expected = softmax(row / temperature)
    assert surprise(drawn(row, 4_000, temperature=temperature), expected) < SUSPECT


def test_sentences_with_neighbouring_numbers_are_independent():
    """The first draws of many sentences, and pairs of neighbours."""
    count, row = 4_000, normal(4)
    expected = np.array(softmax(row))
    sampler = Sampler(SearchOptions(sample=True), range(count))
    rows = np.broadcast_to(row, (count, 1, 4))
    draws = sampler.draw(rows, np.arange(count), np.zeros(count, bool))[1].ravel()
    assert surprise(Counter(draws.tolist()), expected.tolist()) < SUSPECT
    pairs = Counter((draws[:-1] * 4 + draws[1:]).tolist())
    assert surprise(pairs, np.outer(expected, expected).ravel().tolist()) < 2 * SUSPECT


@pytest.mark.parametrize("k", [1, 3, V, 100])
def test_top_k_draws_from_the_k_most_likely(k):
    row = normal(V)
    cut = np.where(row >= np.sort(row)[-min(k, V)], row, -np.inf)
    assert surprise(drawn(row, 2_000, top_k=k), softmax(cut)) < SUSPECT


@pytest.mark.parametrize("p", [1e-6, 0.4, 0.9, 1.0])
def test_top_p_draws_from_the_nucleus(p):
    row = normal(V)
    kept = in_nucleus(softmax(row), p)
    cut = [x if i in kept else -np.inf for i, x in enumerate(row)]
    assert surprise(drawn(row, 2_000, top_p=p), softmax(cut)) < SUSPECT


def in_nucleus(probabilities, p):
    """Take the most likely, and the next, until they reach p."""
    kept, reached = set(), 0.0
    for token in sorted(range(len(probabilities)), key=lambda t: -probabilities[t]):
        if reached < p:
            kept.add(token)
        reached += probabilities[token]
    return kept


@given(seed=st.integers(0, 9_999), p=st.floats(0.001, 0.999), forbidden=st.integers(0, 4))
@settings(max_examples=100, deadline=None)
def test_the_nucleus_is_the_fewest_that_reach_p(seed, p, forbidden):
    weights = np.exp(2 * normal(2, 3, V, seed=seed).astype(np.float64))
    weights[..., :forbidden] = 0.0
    for before, after in zip(
        weights.reshape(-1, V), nucleus(weights, p).reshape(-1, V), strict=True
    ):
        tokens = in_nucleus((before / before.sum()).tolist(), p)
        assert set(np.flatnonzero(after).tolist()) == tokens
        assert np.array_equal(after[sorted(tokens)], before[sorted(tokens)])


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}], ids=str)
def test_drawing_from_one_token_is_greedy_search(options):
    trees = [remembering(tree(seed, V, 1.0)) for seed in range(5)]
    found = find(trees, 6, sample=True, n_best=2, **options)
    assert_same(found, [hypotheses * 2 for hypotheses in find(trees, 6, beam_size=1)])


def samples(numbers, seed=0, n=3):
    trees = [remembering(tree(number, V, 1.0)) for number in numbers]
    return find(trees, 8, numbers, sample=True, n_best=n, seed=seed)


def test_draws_depend_on_the_seed_and_the_sentence_alone():
    """Not on the other sentences, their order, or when they leave."""
    numbers = [0, 1, 2, 3, 4, 5, 6]
    together = dict(zip(numbers, samples(numbers), strict=True))
    backwards = dict(zip(numbers[::-1], samples(numbers[::-1]), strict=True))
    assert together == backwards
    for number in numbers:
        assert samples([number]) == [together[number]]
    assert samples(numbers, seed=1) != list(together.values())
    assert samples(numbers, seed=-1) != list(together.values())


def test_a_forced_token_uses_no_random_number():
    row = normal(1, 1, V)
    options = SearchOptions(sample=True, n_best=1)
    one, other = Sampler(options, [5]), Sampler(options, [5])
    one.draw(row, np.arange(1), np.ones(1, bool))
    for _ in range(20):
        ids = [s.draw(row, np.arange(1), np.zeros(1, bool))[1] for s in (one, other)]
        assert np.array_equal(*ids)


def test_hypotheses_of_one_sentence_are_drawn_independently():
    (found,) = samples([0], n=40)
    assert len(found) == 40
    assert len({tuple(h.ids) for h in found}) > 10


def test_a_drawn_answer_has_the_log_probability_of_the_model():
    """The score does not depend on temperature and cuts."""
    one = remembering(tree(3, V, 1.0))
    (found,) = find([one], 6, sample=True, n_best=20, temperature=2.0, top_k=4, top_p=0.9)
    for h in found:
        ids = (*h.ids, *([EOS] if h.complete else []))
        expected = sum(one([ids[:i]])[0][token] for i, token in enumerate(ids))
        assert h.log_probability == pytest.approx(expected, abs=1e-9)


def test_whole_answers_come_as_often_as_their_probabilities_require():
    """Answers of at most two words, from three words and the end: thirteen."""
    one = remembering(tree(1, 6, 1.0))
    (found,) = find([one], 2, sample=True, n_best=4_000)
    counts = Counter((*h.ids, *([EOS] if h.complete else [])) for h in found)
    words = [1, 4, 5]
    possible = [(EOS,), *((a, b) for a in words for b in (EOS, *words))]
    expected = [allowed_probability(one, ids) for ids in possible]
    assert sum(expected) == pytest.approx(1.0)
    assert set(counts) <= set(possible)
    by_place = Counter({i: counts[ids] for i, ids in enumerate(possible) if counts[ids]})
    assert surprise(by_place, expected) < SUSPECT


def allowed_probability(following, ids):
    """The probability of `ids` where padding and the begin mark are never drawn."""
    probability = 1.0
    for i, token in enumerate(ids):
        row = np.exp(following([ids[:i]])[0])
        row[[PAD, BOS]] = 0.0
        probability *= row[token] / row.sum()
    return probability
