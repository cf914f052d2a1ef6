"""One token at a time: greedy search, and drawing as the probabilities say."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decode.oracles import TreeSession, assert_same, beam, remembering, tree
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.constraints import Constraints
from glassformer.decode.one_by_one import OneByOne, Sampler, likeliest, nucleus
from glassformer.decode.options import SearchOptions

V = 8
# Of a chi-square with up to 7 degrees of freedom, passed by one fair die in a million.
SUSPECT = 40.0


def walk(trees, limits, options, choose):
    width = options.n_best if options.sample else 1
    session, batch = TreeSession(trees, width), len(trees)
    prefixes = torch.empty(batch, 0, dtype=torch.long)
    rules = Constraints(options, EOS, torch.tensor([PAD, BOS]), prefixes)
    nothing = torch.zeros(batch, dtype=torch.double)
    one = OneByOne(session, rules, options, torch.tensor(limits), prefixes, nothing, choose=choose)
    steps = list(one.steps(session.logits()))
    return session, one.found, steps


def sampler(count=1, **options):
    return Sampler(SearchOptions(sample=True, **options), list(range(count)))


@given(
    seeds=st.lists(st.integers(0, 999), min_size=1, max_size=6),
    limits=st.lists(st.integers(1, 8), min_size=6, max_size=6),
    vocab_size=st.integers(5, 9),
)
@settings(max_examples=100, deadline=None)
def test_greedy_search_is_a_textbook_beam_of_one(seeds, limits, vocab_size):
    trees = [remembering(tree(seed, vocab_size, 1.0)) for seed in seeds]
    limits = limits[: len(trees)]
    _, found, _ = walk(trees, limits, SearchOptions(1), likeliest)
    assert_same(found, [beam(t, 1, limit) for t, limit in zip(trees, limits, strict=True)])


def test_the_likeliest_token_is_the_one_with_the_largest_logit():
    logits = torch.randn(3, 2, 1_000)
    assert torch.equal(likeliest(logits, torch.arange(3)), logits.argmax(-1))


def ending_after(n):
    """Word 5 n times, then the end."""
    return lambda prefixes: [
        [0.0 if token == (5 if len(said) < n else EOS) else -50.0 for token in range(V)]
        for said in prefixes
    ]


def test_finished_sentences_leave_as_soon_as_they_crowd_the_batch():
    """One of them ends at each step: the last goes alone."""
    counts = list(range(8))
    session, found, _ = walk(
        [ending_after(n) for n in counts], [20] * 8, SearchOptions(1), likeliest
    )
    assert [h.ids for (h,) in found] == [[5] * n for n in counts]
    assert session.sizes == [8, 6, 6, 4, 3, 2, 1]
    going = [7, 6, 5, 4, 3, 2, 1]
    assert all(n <= size < n * 4 / 3 + 1e-9 for n, size in zip(going, session.sizes, strict=True))


def test_what_is_said_is_told_as_it_is_said():
    trees = [remembering(tree(seed, V, 1.0)) for seed in range(3)]
    _, found, steps = walk(trees[:1], [6], SearchOptions(1), likeliest)
    told = [int(tokens[0, 0]) for tokens in steps]
    assert told == [*found[0][0].ids, *([EOS] if found[0][0].complete else [])]


def drawn(sampler, logits, times):
    """How often each token is drawn for the first sentence."""
    draws = [int(sampler(logits, torch.tensor([0]))) for _ in range(times)]
    return Counter(draws)


def surprise(counts, probabilities):
    """Pearson's chi-square of counts against probabilities."""
    total = sum(counts.values())
    assert all(probabilities[token] > 0 for token in counts)
    return sum(
        (counts[token] - total * p) ** 2 / (total * p)
        for token, p in enumerate(probabilities)
        if p > 0
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_their_probabilities_say(temperature):
    logits = torch.randn(1, 1, V)
    expected = (logits / temperature).softmax(-1).flatten().tolist()
    counts = drawn(sampler(temperature=temperature), logits, 4_000)
    assert surprise(counts, expected) < SUSPECT


def test_sentences_are_drawn_for_independently_of_each_other():
    """The first draws of many sentences, whose seeds are neighbours, and pairs of neighbours."""
    count, logits = 4_000, torch.randn(1, 1, 4)
    expected = logits.softmax(-1).flatten()
    draws = sampler(count)(logits.expand(count, 1, 4), torch.arange(count)).flatten()
    assert surprise(Counter(draws.tolist()), expected.tolist()) < SUSPECT
    pairs = Counter((draws[:-1] * 4 + draws[1:]).tolist())
    assert surprise(pairs, (expected[:, None] * expected).flatten().tolist()) < 2 * SUSPECT


@pytest.mark.parametrize("k", [1, 3, V, 100])
def test_top_k_draws_from_the_k_likeliest(k):
    logits = torch.randn(1, 1, V)
    best = logits.flatten().topk(min(k, V)).indices
    cut = torch.full((V,), -torch.inf).index_copy(0, best, logits.flatten()[best])
    counts = drawn(sampler(top_k=k), logits, 2_000)
    assert surprise(counts, cut.softmax(-1).tolist()) < SUSPECT


@pytest.mark.parametrize("p", [1e-6, 0.4, 0.9, 1.0])
def test_top_p_draws_from_the_nucleus(p):
    logits = torch.randn(1, 1, V)
    kept = in_nucleus(logits.flatten().softmax(-1).tolist(), p)
    cut = torch.tensor([x if i in kept else -torch.inf for i, x in enumerate(logits.flatten())])
    counts = drawn(sampler(top_p=p), logits, 2_000)
    assert surprise(counts, cut.softmax(-1).tolist()) < SUSPECT


def in_nucleus(probabilities, p):
    """Take the likeliest, and the next, until they reach p."""
    kept, reached = set(), 0.0
    for token in sorted(range(len(probabilities)), key=lambda t: -probabilities[t]):
        if reached < p:
            kept.add(token)
        reached += probabilities[token]
    return kept


@given(seed=st.integers(0, 9_999), p=st.floats(0.001, 0.999), forbidden=st.integers(0, 4))
@settings(max_examples=150, deadline=None)
def test_the_nucleus_is_the_fewest_that_reach_p(seed, p, forbidden):
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(2, 3, V, generator=random, dtype=torch.double)
    logits[..., :forbidden] = -torch.inf
    kept = nucleus(logits, p)
    for before, after in zip(logits.flatten(0, 1), kept.flatten(0, 1), strict=True):
        tokens = in_nucleus(before.softmax(-1).tolist(), p)
        assert {int(t) for t in after.isfinite().nonzero()} == tokens
        assert torch.equal(after[sorted(tokens)], before[sorted(tokens)])


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}], ids=str)
def test_drawing_from_one_is_greedy_search(options):
    trees = [remembering(tree(seed, V, 1.0)) for seed in range(5)]
    asked = SearchOptions(sample=True, n_best=2, **options)
    _, found, _ = walk(trees, [6] * 5, asked, Sampler(asked, list(range(5))))
    _, greedy, _ = walk(trees, [6] * 5, SearchOptions(1), likeliest)
    assert_same(found, [hypotheses * 2 for hypotheses in greedy])


def samples(numbers, seed=0, n=3):
    trees = [remembering(tree(number, V, 1.0)) for number in numbers]
    asked = SearchOptions(sample=True, n_best=n, seed=seed)
    _, found, _ = walk(trees, [8] * len(trees), asked, Sampler(asked, numbers))
    return found


def test_what_is_drawn_depends_on_the_seed_and_the_sentence_alone():
    """Not on its neighbours, their order, or when they leave."""
    numbers = [0, 1, 2, 3, 4, 5, 6]
    together = dict(zip(numbers, samples(numbers), strict=True))
    backwards = dict(zip(numbers[::-1], samples(numbers[::-1]), strict=True))
    assert together == backwards
    for number in numbers:
        assert samples([number]) == [together[number]]
    assert samples(numbers) == list(together.values())
    assert samples(numbers, seed=1) != list(together.values())


def test_hypotheses_of_one_sentence_are_drawn_one_by_one():
    (found,) = samples([0], n=40)
    assert len(found) == 40
    assert len({tuple(h.ids) for h in found}) > 10


def test_a_drawn_answer_keeps_the_probability_that_the_model_gives_it():
    """Whatever temperature and cuts it was drawn with."""
    one = remembering(tree(3, V, 1.0))
    asked = SearchOptions(sample=True, n_best=20, temperature=2.0, top_k=4, top_p=0.9)
    _, (found,), _ = walk([one], [6], asked, Sampler(asked, [0]))
    for h in found:
        said = (*h.ids, *([EOS] if h.complete else []))
        total = sum(one([said[:i]])[0][token] for i, token in enumerate(said))
        assert h.log_probability == pytest.approx(total, abs=1e-9)


def test_whole_answers_come_as_often_as_their_probabilities_say():
    """Of two words at most, from three words and the end: thirteen answers."""
    one = remembering(tree(1, 6, 1.0))
    asked = SearchOptions(sample=True, n_best=4_000)
    _, (found,), _ = walk([one], [2], asked, Sampler(asked, [0]))
    counts = Counter((*h.ids, *([EOS] if h.complete else [])) for h in found)
    words = [1, 4, 5]
    answers = [(EOS,), *((a, b) for a in words for b in (EOS, *words))]
    free = {said: sayable(one, said) for said in answers}
    assert sum(free.values()) == pytest.approx(1.0)
    assert set(counts) <= set(answers)
    assert surprise(counter_by_place(counts, answers), list(free.values())) < SUSPECT


def sayable(following, said):
    """The probability of `said` where padding and the mark of the beginning are never said."""
    probability = 1.0
    for i, token in enumerate(said):
        row = torch.tensor(following([said[:i]])[0]).exp()
        row[[PAD, BOS]] = 0.0
        probability *= float(row[token] / row.sum())
    return probability


def counter_by_place(counts, answers):
    return Counter({place: counts[said] for place, said in enumerate(answers) if counts[said]})
