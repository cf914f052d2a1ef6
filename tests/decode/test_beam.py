"""Beam search against the textbook's, on trees of random distributions."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decode.oracles import TreeDecoding, assert_same, beam, exhaustive, remembering, tree
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.beam import advance, answers, histories, scratch, start
from glassformer.decode.options import penalty

ALPHAS = st.sampled_from([-1.0, -0.3, 0.0, 0.6, 1.0, 3.0])


def run(trees, limits, width, n=1, alpha=0.6, counted=None):
    """Search trees with limits of their own; return the answers and the sizes of all steps."""
    batch, sizes = len(trees), []
    decoding = TreeDecoding(trees, width, sizes)
    nothing = np.empty((batch, 0), np.int64)
    counted = None if counted is None else np.array(counted)
    state = start(np.array(limits), width, n, [PAD, BOS], nothing, np.zeros(batch), counted)
    candidates = scratch(batch, width)
    scores = decoding.prefill(np.full((batch, 1), BOS))
    while True:
        before = state.live[: state.n_live[0]].copy()
        values, ids = scores.top(candidates.tokens.shape[1], [PAD, BOS])
        advance(state, values, ids, EOS, alpha, candidates)
        live = state.live[: state.n_live[0]]
        if not len(live):
            return answers(state, EOS), sizes
        decoding.keep(np.searchsorted(before, live))
        position = int(state.length[live[0]]) - 1
        tokens, parents = (
            x[live, position].astype(np.int64) for x in (state.tokens, state.parents)
        )
        scores = decoding.step(tokens, parents)
        assert histories(state).tolist() == [list(map(list, h)) for h in decoding.histories]


SEARCHES = st.fixed_dictionaries(
    {
        "seeds": st.lists(st.integers(0, 999), min_size=1, max_size=6),
        "limits": st.lists(st.integers(1, 6), min_size=6, max_size=6),
        "counted": st.lists(st.integers(1, 6), min_size=6, max_size=6),
        "vocab_size": st.integers(5, 9),  # smaller than twice the beam, and larger
        "width": st.integers(1, 5),
        "n": st.integers(1, 5),
        "alpha": ALPHAS,
        "sharpness": st.sampled_from([0.5, 2.0, 6.0]),
    }
)


@given(case=SEARCHES)
@settings(max_examples=200, deadline=None)
def test_a_batch_gets_the_textbooks_answers_to_each_sentence(case):
    """The textbook goes to the greatest length: the stopping rule must lose nothing by it.

    Sentences end at different times and have limits of their own, so they also leave the batch.
    """
    width, alpha = case["width"], case["alpha"]
    n = min(case["n"], width)
    trees = [remembering(tree(s, case["vocab_size"], case["sharpness"])) for s in case["seeds"]]
    limits, counted = case["limits"][: len(trees)], case["counted"][: len(trees)]
    found, _ = run(trees, limits, width, n, alpha, counted)
    expected = [
        beam(one, width, limit, n=n, alpha=alpha, counted=most)
        for one, limit, most in zip(trees, limits, counted, strict=True)
    ]
    assert_same(found, expected)
    for hypotheses in found:
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({(tuple(h.ids), h.complete) for h in hypotheses}) == len(hypotheses)
        assert not {PAD, BOS, EOS} & {token for h in hypotheses for token in h.ids}


@given(case=SEARCHES)
@settings(max_examples=60, deadline=None)
def test_a_sentence_is_done_as_soon_as_no_live_hypothesis_can_win(case):
    """Counted in steps, against a textbook that checks after each whether to go on."""
    width, alpha, steps = case["width"], case["alpha"], []
    n = min(case["n"], width)
    trees = [remembering(tree(s, case["vocab_size"], case["sharpness"])) for s in case["seeds"]]
    limits, counted = case["limits"][: len(trees)], case["counted"][: len(trees)]

    def watched(one):
        steps.append(0)
        number = len(steps) - 1

        def ask(prefixes):
            steps[number] += 1
            return one(prefixes)

        return ask

    for one, limit, most in zip(trees, limits, counted, strict=True):
        beam(watched(one), width, limit, n=n, alpha=alpha, counted=most, stop=True)
    _, sizes = run(trees, limits, width, n, alpha, counted)
    assert sizes == [sum(count > step for count in steps) for step in range(1, max(steps))]


@given(case=SEARCHES, alpha=st.sampled_from([0.6, 1.6, 3.0, 100.0]), more=st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_a_greater_limit_does_not_change_an_answer_that_is_complete(case, alpha, more):
    """Beyond the length that counts a hypothesis can only lose, whatever the length penalty."""
    width, low, high = case["width"], [6] * len(case["seeds"]), [6 + more] * len(case["seeds"])
    trees = [remembering(tree(s, case["vocab_size"], case["sharpness"])) for s in case["seeds"]]
    counted = case["counted"][: len(trees)]
    found, _ = run(trees, low, width, 1, alpha, counted)
    again, _ = run(trees, high, width, 1, alpha, counted)
    for (before,), (after,) in zip(found, again, strict=True):
        assert before == after or not before.complete


def test_repetition_that_never_ends_does_not_win():
    """The model repeats a token with probability 0.999 once it has begun to."""

    def loop(prefixes):
        begin, inside = [-99.0] * 6, [-99.0] * 6
        begin[EOS], begin[4] = -0.1, -2.4
        inside[4], inside[EOS] = -0.001, -7.0
        return [inside if prefix else begin for prefix in prefixes]

    ((best,),), sizes = run([loop], [2_000], 2, 1, 3.0, [2_000])
    assert len(best.ids) > 1_000  # what Equation 14 prefers, if every token counts
    ((best,),), sizes = run([loop], [2_000], 2, 1, 1.0, [14])
    assert best.ids == [] and best.complete and len(sizes) < 14


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 4.0])
@pytest.mark.parametrize("limit", [1, 3, 4])
def test_a_beam_as_wide_as_the_tree_is_an_exhaustive_search(alpha, limit):
    """Three words and the end: at most 108 continuations of the 27 sentences of three words."""
    trees = [remembering(tree(seed, 6, sharpness=1.0)) for seed in range(3)]
    found, _ = run(trees, [limit] * len(trees), 108, 20, alpha)
    assert_same(found, [exhaustive(one, 6, limit, alpha)[:20] for one in trees])


def test_equal_log_probabilities_keep_the_order_of_hypotheses_then_ids():
    even = [lambda prefixes: [[-2.0] * 6 for _ in prefixes]]
    ((first, second), *_), _ = run(even, [2], 2, 2, 0.0)
    assert (first.ids, second.ids) == ([], [1, 1])  # 3, the end, comes behind 1 in the first step


def test_the_score_is_the_log_probability_over_the_length_penalty():
    """The length counts the end mark, or the last token of an answer that is cut off."""
    trees = [remembering(tree(seed, 6, sharpness=0.5)) for seed in range(6)]
    found, _ = run(trees, [4] * 6, 4, 4, 0.8)
    hypotheses = list(chain(*found))
    assert {h.complete for h in hypotheses} == {True, False}
    for h in hypotheses:
        length = len(h.ids) + h.complete
        assert h.score == h.log_probability / penalty(length, 0.8)
        assert length == 4 or h.complete


def test_a_prefix_is_part_of_the_answer_and_of_its_log_probability():
    one, prefix = remembering(tree(3, 6)), (4, 5)
    state = start(np.array([3]), 2, 2, [PAD, BOS], np.array([prefix]), np.array([-1.5]))
    row = np.array([[one([prefix])[0]]], np.float32)
    row[..., [PAD, BOS]] = -np.inf
    ids = np.argsort(-row, kind="stable")[..., :4]
    advance(state, np.take_along_axis(row, ids, -1), ids, EOS, 0.0, scratch(1, 2))
    (found,) = answers(state, EOS)
    assert state.n_live[0] == 0 and len(found) == 2
    for h, token in zip(found, ids[0, 0], strict=False):
        assert h.ids == [*prefix, *([token] if token != EOS else [])]
        assert h.log_probability == -1.5 + float(row[0, 0, token])
