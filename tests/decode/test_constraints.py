"""Rules for what comes next, each against a sentence of Python that says the same."""

import pytest
import torch
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
SAID = st.integers(0, 9).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, 3), min_size=length, max_size=length), min_size=2, max_size=2
    )
)  # two hypotheses of one length, in so few words that they repeat themselves


def rules(prefixes=((),), **options):
    width = max(map(len, prefixes))
    forced = torch.tensor([[*p, *[-1] * (width - len(p))] for p in prefixes]).long()
    return Constraints(SearchOptions(**options), EOS, torch.tensor([PAD, BOS]), forced)


def forbidden(logits):
    return {int(place) for place in (logits == -torch.inf).nonzero().flatten()}


def completes_a_run_held_already(said, token, n):
    whole = [*said, token]
    runs = [tuple(whole[i : i + n]) for i in range(len(whole) - n + 1)]
    return len(said) >= n and runs[-1] in runs[:-1]


@given(said=SAID, n=st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_no_run_of_n_tokens_comes_twice(said, n):
    logits = torch.randn(1, 2, V)
    before = logits.clone()
    forbid_repeated_ngrams(logits, torch.tensor([said]).long().view(1, 2, -1), n)
    for w, history in enumerate(said):
        expected = {t for t in range(V) if completes_a_run_held_already(history, t, n)}
        assert forbidden(logits[0, w]) == expected
        kept = [t for t in range(V) if t not in expected]
        assert torch.equal(logits[0, w, kept], before[0, w, kept])


@given(said=SAID, factor=st.floats(1, 5))
@settings(max_examples=100, deadline=None)
def test_the_repetition_penalty_multiplies_the_log_probability_of_what_was_said(said, factor):
    log_probs = torch.randn(1, 2, V).log_softmax(-1)
    before = log_probs.clone()
    penalise_repetition(log_probs, torch.tensor([said]).long().view(1, 2, -1), factor)
    for w, history in enumerate(said):
        for token in range(V):
            times = factor if token in history else 1.0
            expected = float(before[0, w, token]) * times
            assert float(log_probs[0, w, token]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_no_end_before_the_least_length(length):
    logits = torch.zeros(2, 3, V)
    rules(((), ()), min_length=2).apply(logits, torch.full((2, 3, length), 5))
    expected = {PAD, BOS, EOS} if length < 2 else {PAD, BOS}
    assert all(forbidden(row) == expected for row in logits.flatten(0, 1))


def test_where_nothing_else_is_left_to_say_the_end_may_come_early():
    """Rather that than a token of no probability."""
    logits = torch.zeros(1, 2, V)
    logits[0, 0, [t for t in range(V) if t != EOS]] = -torch.inf
    forbid_end(logits, EOS)
    assert forbidden(logits[0, 0]) == set(range(V)) - {EOS}
    assert forbidden(logits[0, 1]) == {EOS}


def test_the_marks_that_are_no_words_are_never_said():
    logits = torch.randn(2, 3, V)
    before = logits.clone()
    rules(((), ())).apply(logits, torch.empty(2, 3, 0, dtype=torch.long))
    words = [t for t in range(V) if t not in (PAD, BOS)]
    assert (logits[..., [PAD, BOS]] == -torch.inf).all()
    assert torch.equal(logits[..., words], before[..., words])


@pytest.mark.parametrize(
    "options",
    [{}, {"min_length": 5}, {"no_repeat_ngram": 1}, {"repetition_penalty": 3.0}],
    ids=str,
)
def test_a_prefix_is_said_whatever_the_other_rules_think_of_it(options):
    """The second sentence's is shorter, the third has none: there the other rules hold."""
    prefixes = ([5, 5, EOS, PAD], [6], [])
    said = torch.tensor([[[5, 5]], [[6, 7]], [[7, 7]]])
    for length, sentences in enumerate([[0, 1], [0], [0], [0], []]):
        held, free = rules(prefixes, **options), rules(((), (), ()), **options)
        logits = torch.randn(3, 1, V).log_softmax(-1)
        before, expected = logits.clone(), logits.clone()
        history = said[..., :length] if length <= 2 else torch.full((3, 1, length), 7)
        held.apply(logits, history)
        free.apply(expected, history)
        for b, prefix in enumerate(prefixes):
            if b in sentences:
                token = prefix[length]
                assert forbidden(logits[b, 0]) == set(range(V)) - {token}
                assert logits[b, 0, token] == before[b, 0, token], "the model's probability"
            else:
                assert torch.equal(logits[b], expected[b])


def test_the_prefixes_follow_the_sentences_that_go_on():
    held = rules(([5], [], [6]))
    held.keep(torch.tensor([2, 1]))
    logits = torch.zeros(2, 2, V)
    held.apply(logits, torch.empty(2, 2, 0, dtype=torch.long))
    assert forbidden(logits[0, 0]) == forbidden(logits[0, 1]) == set(range(V)) - {6}
    assert forbidden(logits[1, 0]) == {PAD, BOS}
