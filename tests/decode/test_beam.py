"""Beam search against the textbook's, on trees of random probabilities."""

from itertools import chain

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decode.oracles import TreeSession, assert_same, beam, exhaustive, remembering, tree
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.beam import Beam, Finished
from glassformer.decode.constraints import Constraints
from glassformer.decode.one_by_one import OneByOne, likeliest
from glassformer.decode.options import Hypothesis, SearchOptions, penalty

ALPHAS = st.sampled_from([-1.0, -0.3, 0.0, 0.6, 1.0, 3.0])


def beginning(trees, limits, options, width=None):
    """A session of these trees, and all that a search over it is made with."""
    session, batch = TreeSession(trees, width or options.beam_size), len(trees)
    prefixes = torch.empty(batch, 0, dtype=torch.long)
    rules = Constraints(options, EOS, torch.tensor([PAD, BOS]), prefixes)
    said, log_probs = prefixes.clone(), torch.zeros(batch, dtype=torch.double)
    return session, (session, rules, options, torch.tensor(limits), said, log_probs)


def run(trees, limits, options):
    session, arguments = beginning(trees, limits, options)
    return session, Beam(*arguments).search(session.logits())


SEARCHES = st.fixed_dictionaries(
    {
        "seeds": st.lists(st.integers(0, 999), min_size=1, max_size=6),
        "limits": st.lists(st.integers(1, 6), min_size=6, max_size=6),
        "vocab_size": st.integers(5, 9),  # smaller than twice the beam, and larger
        "width": st.integers(2, 5),
        "n": st.integers(1, 5),
        "alpha": ALPHAS,
        "sharpness": st.sampled_from([0.5, 2.0, 6.0]),
    }
)


@given(case=SEARCHES)
@settings(max_examples=300, deadline=None)
def test_a_batch_is_told_what_the_textbook_tells_each_sentence(case):
    """The textbook goes on to the end: that nothing better could have come is part of the test.

    Sentences end at different times and have limits of their own, so they also leave the batch.
    """
    n = min(case["n"], case["width"])
    trees = [remembering(tree(s, case["vocab_size"], case["sharpness"])) for s in case["seeds"]]
    limits = case["limits"][: len(trees)]
    options = SearchOptions(case["width"], n, length_penalty=case["alpha"])
    _, found = run(trees, limits, options)
    expected = [
        beam(one, case["width"], limit, n=n, alpha=case["alpha"])
        for one, limit in zip(trees, limits, strict=True)
    ]
    assert_same(found, expected)
    for hypotheses in found:
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({(tuple(h.ids), h.complete) for h in hypotheses}) == len(hypotheses)
        assert not {PAD, BOS, EOS} & {token for h in hypotheses for token in h.ids}


@given(case=SEARCHES)
@settings(max_examples=60, deadline=None)
def test_it_stops_as_soon_as_no_live_hypothesis_can_win(case):
    """Counted in steps, against a textbook that asks after each whether to go on."""
    n, limit = min(case["n"], case["width"]), case["limits"][0]
    asked = []

    def counted(prefixes):
        asked.append(prefixes)
        return one(prefixes)

    one = remembering(tree(case["seeds"][0], case["vocab_size"], case["sharpness"]))
    options = SearchOptions(case["width"], n, length_penalty=case["alpha"])
    session, _ = run([one], [limit], options)
    beam(counted, case["width"], limit, n=n, alpha=case["alpha"], stop=True)
    assert len(session.sizes) == len(asked) - 1


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.0, 4.0])
@pytest.mark.parametrize("limit", [1, 3, 4])
def test_a_beam_as_wide_as_the_tree_is_an_exhaustive_search(alpha, limit):
    """Three words and the end: at most 108 ways to go on from the 27 sentences of three words."""
    trees = [remembering(tree(seed, 6, sharpness=1.0)) for seed in range(4)]
    options = SearchOptions(108, n_best=20, length_penalty=alpha)
    _, found = run(trees, [limit] * len(trees), options)
    assert_same(found, [exhaustive(one, 6, limit, alpha)[:20] for one in trees])


@given(
    seeds=st.lists(st.integers(0, 999), min_size=1, max_size=6),
    limits=st.lists(st.integers(1, 8), min_size=6, max_size=6),
    sharpness=st.sampled_from([0.5, 2.0]),
)
@settings(max_examples=60, deadline=None)
def test_a_beam_of_one_is_greedy_search(seeds, limits, sharpness):
    trees, options = [remembering(tree(s, 6, sharpness)) for s in seeds], SearchOptions(1)
    limits = limits[: len(trees)]
    _, found = run(trees, limits, options)
    session, arguments = beginning(trees, limits, options)
    greedy = OneByOne(*arguments, choose=likeliest)
    for _ in greedy.steps(session.logits()):
        pass
    assert_same(found, greedy.found)


@given(seeds=st.lists(st.integers(0, 99), min_size=8, max_size=8), width=st.integers(2, 4))
@example(seeds=[7] * 8, width=3)
@settings(max_examples=30, deadline=None)
def test_sentences_that_are_done_never_crowd_the_batch(seeds, width):
    """One in four at most, at any step."""
    trees = [remembering(tree(seed, 6)) for seed in seeds]
    session, _ = run(trees, [10] * 8, SearchOptions(width))
    alone = [run([one], [10], SearchOptions(width))[0] for one in trees]
    for step, size in enumerate(session.sizes):
        going = sum(len(one.sizes) > step for one in alone)
        assert 0 < going <= size < going * 4 / 3 + 1e-9


def test_fewer_are_found_than_asked_for_where_fewer_may_be_said():
    """Two words, neither of them twice."""
    options = SearchOptions(8, n_best=8, no_repeat_ngram=1)
    _, (found,) = run([tree(0, 5)], [6], options)
    assert {tuple(h.ids) for h in found} == {(), (1,), (4,), (1, 4), (4, 1)}
    assert len(found) == 5 and all(h.complete and h.score > -torch.inf for h in found)


def hypothesis(score):
    return Hypothesis([int(-10 * score)], score, score, True)


def test_the_n_best_are_kept_and_the_worst_of_them_is_what_counts():
    finished = Finished(2)
    assert finished.worst_score == -torch.inf
    for score, worst in [(-3.0, -torch.inf), (-1.0, -3.0), (-4.0, -3.0), (-2.0, -2.0)]:
        finished.add(hypothesis(score))
        assert finished.worst_score == worst
    assert [h.score for h in finished.best] == [-1.0, -2.0]


def test_the_score_is_the_log_probability_over_the_length_penalty():
    """Whose length counts the end, or the last token of what was cut off."""
    trees = [remembering(tree(seed, 6, sharpness=0.5)) for seed in range(6)]
    _, found = run(trees, [4] * 6, SearchOptions(4, n_best=4, length_penalty=0.8))
    hypotheses = list(chain(*found))
    assert {h.complete for h in hypotheses} == {True, False}
    for h in hypotheses:
        length = len(h.ids) + h.complete
        assert h.score == pytest.approx(h.log_probability / penalty(length, 0.8))
        assert length == 4 or h.complete
