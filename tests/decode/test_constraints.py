"""Rules on the next token, each against the same rule in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.constraints import (
    Constraints,
    forbid_end,
    forbid_repeated_ngrams,
    penalise_repetition,
)
from glassformer.decode.options import SearchOptions

V = 8
HISTORIES = st.integers(0, 9).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, 3), min_size=length, max_size=length), min_size=2, max_size=2
    )
)  # two hypotheses of one length, in so few words that they repeat themselves


def rules(prefixes=((),), **options):
    return Constraints(SearchOptions(**options), EOS, [PAD, BOS], prefixes, V)


def random_rows(*shape):
    return -np.random.default_rng(0).random(shape, np.float32) - 0.1


def forbidden(row):
    return set(np.flatnonzero(row == -np.inf).tolist())


def history_of(histories):
    return np.array([histories], np.int64).reshape(1, 2, -1)


def completes_a_known_ngram(history, token, n):
    whole = [*history, token]
    ngrams = [tuple(whole[i : i + n]) for i in range(len(whole) - n + 1)]
    return len(history) >= n and ngrams[-1] in ngrams[:-1]


@given(histories=HISTORIES, n=st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_no_ngram_comes_twice(histories, n):
    rows = random_rows(1, 2, V)
    before = rows.copy()
    forbid_repeated_ngrams(rows, history_of(histories), n)
    for w, history in enumerate(histories):
        expected = {t for t in range(V) if completes_a_known_ngram(history, t, n)}
        assert forbidden(rows[0, w]) == expected
        kept = [t for t in range(V) if t not in expected]
        assert np.array_equal(rows[0, w, kept], before[0, w, kept])


@given(histories=HISTORIES, factor=st.floats(1, 5))
@settings(max_examples=100, deadline=None)
def test_the_repetition_penalty_multiplies_the_log_probability_of_earlier_tokens(histories, factor):
    rows = random_rows(1, 2, V)
    before = rows.copy()
    penalise_repetition(rows, history_of(histories), factor)
    for w, history in enumerate(histories):
        for token in range(V):
            times = factor if token in history else 1.0
            assert rows[0, w, token] == pytest.approx(before[0, w, token] * times, rel=1e-6)


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_no_end_before_the_least_length(position):
    rows, held = random_rows(2, 3, V), rules(((), ()), min_length=2)
    held.apply(rows, np.arange(2), position, None)
    expected = {PAD, BOS, EOS} if position < 2 else {PAD, BOS}
    assert all(forbidden(row) == expected for row in rows.reshape(-1, V))
    assert set(held.bans(position)) == expected
    assert held.is_plain(position) == (position >= 2)


def test_where_no_other_token_is_left_the_end_may_come_early():
    rows = random_rows(1, 2, V)
    rows[0, 0, [t for t in range(V) if t != EOS]] = -np.inf
    forbid_end(rows, [EOS])
    assert forbidden(rows[0, 0]) == set(range(V)) - {EOS}
    assert forbidden(rows[0, 1]) == {EOS}


def test_an_end_mark_outside_the_vocabulary_is_never_looked_at():
    held = Constraints(SearchOptions(min_length=3), V + 5, [PAD, BOS], [()], V)
    rows = random_rows(1, 1, V)
    held.apply(rows, np.arange(1), 0, None)
    assert forbidden(rows[0, 0]) == set(held.bans(0)) == {PAD, BOS}


@pytest.mark.parametrize(
    "options",
    [{}, {"min_length": 5}, {"no_repeat_ngram": 1}, {"repetition_penalty": 3.0}],
    ids=str,
)
def test_a_prefix_overrules_all_other_rules(options):
    """The second sentence's is shorter, the third has none: there the other rules apply."""
    prefixes = ([5, 5, EOS, PAD], [6], [])
    tokens = np.array([[[5, 5, 7, 7]], [[6, 7, 7, 7]], [[7, 7, 7, 7]]])
    for position, sentences in enumerate([[0, 1], [0], [0], [0], []]):
        held, free = rules(prefixes, **options), rules(((), (), ()), **options)
        rows = random_rows(3, 1, V)
        before, expected = rows.copy(), rows.copy()
        history = tokens[..., :position]
        held.apply(rows, np.arange(3), position, history)
        free.apply(expected, np.arange(3), position, history)
        assert held.bans(position) is None or position == 4
        for b, prefix in enumerate(prefixes):
            if b in sentences:
                token = prefix[position]
                assert forbidden(rows[b, 0]) == set(range(V)) - {token}
                assert rows[b, 0, token] == before[b, 0, token], "the model's log-probability"
            else:
                assert np.array_equal(rows[b], expected[b])


def test_prefixes_belong_to_sentences_whichever_are_left():
    held, rows = rules(([5], [], [6])), random_rows(2, 2, V)
    held.apply(rows, np.array([1, 2]), 0, None)
    assert forbidden(rows[0, 0]) == {PAD, BOS}
    assert forbidden(rows[1, 0]) == forbidden(rows[1, 1]) == set(range(V)) - {6}
    assert held.forced(np.array([0, 1]), 0).tolist() == [5, -1]
    assert held.forced(np.array([0, 1]), 1).tolist() == [-1, -1]


def test_rules_that_differ_between_hypotheses_need_whole_rows():
    assert rules(no_repeat_ngram=2).bans(0) is None
    assert rules(repetition_penalty=1.5).bans(0) is None
    assert rules(([], [5])).bans(0) is None and rules(([], [5])).is_plain(1)
    assert rules().bans(0) == (PAD, BOS) and rules().is_plain(0)
