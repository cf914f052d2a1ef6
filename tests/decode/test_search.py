"""One door to every search, in models: what is asked for is what is said."""

from itertools import chain

import pytest
import torch
from torch import nn

from decode.oracles import (
    WAYS,
    after,
    assert_same,
    beam,
    each_way,
    never,
    remembering,
    sources,
    toy,
)
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.search import SearchOptions, force_decode, search, stream
from glassformer.errors import InputError

V, LIMIT = 12, 7
VARIANTS = [
    {},
    {"positions": "rope", "n_kv_heads": 1, "norm": "rms-norm"},
    {"positions": "alibi", "residual": "post-norm"},
    {"positions": "learned", "tie_source_target": False},
    {"positions": "relative-bucketed", "feed_forward": "swiglu"},
]


def find(model, questions, prefixes=None, numbers=None, **options):
    options = {"max_length": LIMIT, **options}
    return search(model, pad(questions), BOS, EOS, SearchOptions(**options), prefixes, numbers)


def answers(found):
    return [[h.ids for h in hypotheses] for hypotheses in found]


def textbook(model, questions, width, prefixes=None, **changes):
    prefixes = prefixes or [()] * len(questions)
    return [
        beam(remembering(after(model, source)), width, LIMIT, prefix=prefix, **changes)
        for source, prefix in zip(questions, prefixes, strict=True)
    ]


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_batch_is_told_what_the_textbook_tells_each_sentence_alone(changes, width):
    model, questions = toy(**changes), sources(1, 6, 3, 8, 4)
    found = find(model, questions, beam_size=width, n_best=width)
    assert_same(found, textbook(model, questions, width, n=width))
    assert len({h.log_probability for h in chain(*found)}) == len(questions) * width


@pytest.mark.parametrize("end", [EOS, *range(EOS + 1, V)])
def test_any_token_may_be_the_end(end):
    """Sentences leave early, late, together and never."""
    model, questions = toy(), sources(1, 6, 3, 8, 4)
    options = SearchOptions(beam_size=1, max_length=LIMIT)
    endless = search(model, pad(questions), BOS, V + 5, options)
    found = search(model, pad(questions), BOS, end, options)
    for (whole,), (cut,) in zip(endless, found, strict=True):
        assert len(whole.ids) == LIMIT and not whole.complete
        ends = whole.ids.index(end) if end in whole.ids else LIMIT
        assert cut.ids == whole.ids[:ends] and cut.complete == (end in whole.ids)


@each_way
@pytest.mark.parametrize("prefixes", [[[5, 6]] * 4, [[7], [], [5, 5, 5, 8], [4, 9]]], ids=str)
def test_an_answer_begins_with_its_prefix(way, prefixes):
    model, questions = toy(), sources(1, 6, 3, 8)
    found = find(model, questions, prefixes, **way)
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert all(h.ids[: len(prefix)] == prefix for h in hypotheses)
    if "sample" not in way:
        width, n = way["beam_size"], way.get("n_best", 1)
        assert_same(found, textbook(model, questions, width, prefixes, n=n))
    assert_rescored(model, questions, found)


@each_way
def test_a_prefix_as_long_as_the_answer_may_be_is_the_answer(way):
    model, questions = toy(), sources(3, 5)
    prefixes = [[4, 5, 6, 7, 8, 9, 4], [7, 7, 7, 7, 7, 7, 7]]
    found = find(model, questions, prefixes, **way)
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert all(h.ids == prefix and not h.complete for h in hypotheses)
    assert_rescored(model, questions, found)
    with pytest.raises(InputError) as caught:
        find(model, questions, [[4], [5] * (LIMIT + 1)], **way)
    assert f"{LIMIT + 1} tokens" in caught.value.what
    assert str(LIMIT) in caught.value.why and "max_length" in caught.value.remedy


def assert_rescored(model, questions, found):
    """Made to say an answer, the model gives it the log-probability that the search gave."""
    for source, hypotheses in zip(questions, found, strict=True):
        said = [[*h.ids, *([EOS] if h.complete else [])] for h in hypotheses]
        target = pad(said)
        scores = force_decode(model, pad([source] * len(said)), target, BOS)
        totals = scores.double().masked_fill(target == PAD, 0.0).sum(1).tolist()
        assert [h.log_probability for h in hypotheses] == pytest.approx(totals, abs=1e-5)


@each_way
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_scores_are_those_of_a_forced_decoding(way, changes):
    model, questions = toy(**changes), sources(1, 6, 3)
    found = find(model, questions, **way, no_repeat_ngram=2, min_length=2)
    assert_rescored(model, questions, found)


@pytest.mark.parametrize("width", [1, 2])
def test_a_long_answer_is_scored_as_exactly(width):
    """A sum in float32 would be off by ten times as much."""
    model, questions, length = toy(), sources(9, 4, 2, 7, 5, 6), 150
    found = find(model, questions, beam_size=width, min_length=length, max_length=length)
    said = torch.tensor([h.ids for (h,) in found])
    totals = force_decode(model, pad(questions), said, BOS).double().sum(1).tolist()
    assert max(totals) < -50
    assert [h.log_probability for (h,) in found] == pytest.approx(totals, abs=3e-5, rel=0)
    lengthened = ((5 + length) / 6) ** 0.6
    scores = [total / lengthened for total in totals]
    assert [h.score for (h,) in found] == pytest.approx(scores, abs=1e-5, rel=0)


@torch.inference_mode()
def test_forced_decoding_is_the_log_softmax_of_the_model():
    model, source = toy(), pad(sources(3, 5))
    target = torch.tensor([[4, 5, 6, EOS], [7, EOS, PAD, PAD]])
    logits = model(source, torch.tensor([[BOS, 4, 5, 6], [BOS, 7, EOS, EOS]]))
    expected = logits.log_softmax(-1).gather(-1, target[..., None]).squeeze(-1)
    scores = force_decode(model, source, target, BOS)
    real = target != PAD
    torch.testing.assert_close(scores[real], expected[real], rtol=0, atol=1e-5)


@each_way
@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 3), (2, 5), (4, 4), (6, 7)])
def test_answers_are_as_long_as_they_must_and_may_be(way, low, high):
    model, questions = toy(), sources(1, 6, 3, 8)
    found = find(model, questions, **way, min_length=low, max_length=high)
    for h in chain(*found):
        assert low <= len(h.ids) <= high
        assert h.complete or len(h.ids) == high
    if "sample" not in way:
        expected = [
            beam(
                after(model, source), way["beam_size"], high, n=way.get("n_best", 1),
                forbidden=lambda said: never(said) | ({EOS} if len(said) < low else set()),
            )
            for source in questions
        ]  # fmt: skip
        assert_same(found, expected)


@each_way
def test_without_a_limit_it_is_the_papers_by_each_sentences_own_length(way):
    model, questions = toy(), [[5, EOS], [4, 5, 6, 7, 8, 4, EOS]]
    options = SearchOptions(**way)
    endless = search(model, pad(questions), BOS, V + 5, options)
    for question, hypotheses in zip(questions, endless, strict=True):
        assert {len(h.ids) for h in hypotheses} == {len(question) + 50}
    prefixes = [[], [5] * 70]
    found = search(model, pad(questions), BOS, V + 5, options, prefixes)
    assert {len(h.ids) for h in found[0]} == {52} and {len(h.ids) for h in found[1]} == {71}
    longer = SearchOptions(**way, min_length=60)
    found = search(model, pad(questions), BOS, EOS, longer)
    assert all(len(h.ids) in (60, 61) for h in found[0] + found[1])


def runs(ids, n):
    return [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]


@each_way
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_run_of_n_tokens_comes_twice(way, n):
    """In so few words that without the rule some do."""
    model, questions, length = toy(vocab_size=7), sources(1, 6, 3, vocab_size=7), 20
    free = find(model, questions, **way, max_length=length, min_length=length)
    assert any(len(set(runs(h.ids, n))) < len(runs(h.ids, n)) for h in chain(*free))
    low = 3 if n == 1 else 6
    found = find(model, questions, **way, max_length=length, min_length=low, no_repeat_ngram=n)
    for h in chain(*found):
        assert len(set(runs(h.ids, n))) == len(runs(h.ids, n))
        assert h.log_probability > -torch.inf


def test_where_nothing_may_be_said_any_more_the_answer_ends():
    """Four words, none twice, cannot make an answer of six."""
    model, questions = toy(vocab_size=7), sources(2, 4, vocab_size=7)
    for width in (1, 3):
        found = find(model, questions, beam_size=width, min_length=6, no_repeat_ngram=1)
        for (h,) in found:
            assert sorted(h.ids) == [1, 4, 5, 6] and h.complete
            assert h.log_probability > -torch.inf


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("n", [1, 2])
def test_the_rule_of_runs_is_the_textbooks(width, n):
    model, questions = toy(vocab_size=7), sources(1, 6, 3, vocab_size=7)

    def forbidden(said):
        again = {t for t in range(7) if runs((*said, t), n)[-1:] != []}
        held = runs(said, n)
        return never(said) | {t for t in again if runs((*said, t), n)[-1] in held}

    found = find(model, questions, beam_size=width, n_best=width, no_repeat_ngram=n)
    assert_same(found, textbook(model, questions, width, n=width, forbidden=forbidden))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("factor", [1.0, 1.3, 4.0])
def test_the_repetition_penalty_is_the_textbooks(width, factor):
    model, questions = toy(), sources(1, 6, 3)
    found = find(model, questions, beam_size=width, n_best=width, repetition_penalty=factor)
    assert_same(found, textbook(model, questions, width, n=width, factor=factor))


def test_a_prefix_is_not_penalised_however_it_is_read():
    """All at once where prefixes are of one length, step by step where they are not."""
    model, questions = toy(), sources(4, 4)
    alone, together = (
        find(model, q, [[5, 5, 5, 5], *rest], beam_size=3, repetition_penalty=2.0)
        for q, rest in ((questions[:1], []), (questions, [[]]))
    )
    assert_same(alone, together[:1])


@pytest.mark.parametrize("width", [1, 4])
def test_an_ensemble_of_equal_models_is_the_model(width):
    model, questions = toy(), sources(1, 6, 3)
    assert_same(
        find([model, model], questions, beam_size=width, n_best=width),
        find(model, questions, beam_size=width, n_best=width),
    )


@pytest.mark.parametrize("width", [1, 4])
def test_an_ensemble_says_what_the_mean_of_the_probabilities_says(width):
    models = [toy(), toy(positions="alibi", decoder_layers=2)]
    questions = sources(1, 6, 3)
    found = find(models, questions, [[], [5], [6, 7]], beam_size=width, n_best=width)
    assert_same(found, textbook(models, questions, width, [[], [5], [6, 7]], n=width))
    assert_rescored(models, questions, found)
    assert answers(found) != answers(find(models[0], questions, [[], [5], [6, 7]], beam_size=width))


@each_way
def test_the_marks_that_are_no_words_are_never_said(way):
    """However much the model would like to."""
    model = toy()
    with torch.no_grad():
        model.output.weight[[PAD, BOS]] *= 8
    found = find(model, sources(1, 6, 3, 8), **way)
    assert not {PAD, BOS, EOS} & {token for h in chain(*found) for token in h.ids}
    assert all(h.log_probability > -torch.inf for h in chain(*found))


@pytest.mark.parametrize("way", [{"beam_size": 1}, {"sample": True, "seed": 5}], ids=str)
@pytest.mark.parametrize("prefix", [[], [5, 6]], ids=str)
def test_a_stream_is_the_answer_token_by_token(way, prefix):
    model, options = toy(), SearchOptions(**way, max_length=LIMIT)
    for question in sources(3, 8, 1):
        told = stream(model, pad([question]), BOS, EOS, options, prefix)
        first = next(told, None)
        (whole,) = find(model, [question], [prefix], **way)
        rest = whole[0].ids[len(prefix) :]
        assert [first, *told] == (rest or [None])


def test_a_stream_tells_nothing_of_a_prefix_that_fills_it():
    options = SearchOptions(beam_size=1, max_length=3)
    assert list(stream(toy(), pad(sources(3)), BOS, EOS, options, [4, 5, 6])) == []


def test_a_stream_comes_as_it_is_made():
    model, steps = toy(), []
    model.output.register_forward_hook(lambda *_: steps.append(1))
    told = stream(model, pad(sources(3)), BOS, V + 5, SearchOptions(beam_size=1))
    for number in range(1, 5):
        next(told)
        assert len(steps) == number


@pytest.mark.parametrize("way", [{"beam_size": 3}, {"sample": True, "n_best": 2}], ids=str)
def test_what_is_decided_at_the_end_cannot_be_streamed(way):
    with pytest.raises(InputError, match="cannot be streamed") as caught:
        next(stream(toy(), pad(sources(3)), BOS, EOS, SearchOptions(**way)))
    assert "beam_size=1" in caught.value.remedy and "n_best=1" in caught.value.remedy


@pytest.mark.parametrize("positions", ["sinusoidal", "rope", "relative"])
@pytest.mark.parametrize("width", [1, 4])
def test_a_language_model_goes_on_from_its_prefixes(positions, width):
    model = toy(kind="language-model", positions=positions)
    prefixes = [[], [5], [6, 7, 8], [6, 7, 9]]
    options = SearchOptions(width, width, max_length=LIMIT)
    found = search(model, None, BOS, EOS, options, prefixes)
    expected = [
        beam(after(model, None), width, LIMIT, n=width, prefix=prefix) for prefix in prefixes
    ]
    assert_same(found, expected)
    assert_same(search(model, None, BOS, EOS, options), found[:1])


def test_a_language_model_goes_on_for_fifty_tokens_unless_told():
    options, prefixes = SearchOptions(beam_size=1), [[4, 5, 6], [7]]
    found = search(toy(kind="language-model"), None, BOS, V + 5, options, prefixes)
    assert [len(h.ids) for (h,) in found] == [53, 51]


def test_what_is_drawn_depends_on_the_seed_and_the_number_of_the_sentence():
    model, questions, prefixes = toy(), sources(1, 6, 3, 8, 4), [[], [5], [], [6, 7], []]
    way = WAYS["sample"]
    found = find(model, questions, prefixes, **way)
    for i in (3, 0, 4):
        assert_same(find(model, questions[i : i + 1], prefixes[i : i + 1], [i], **way), [found[i]])
    other = find(model, questions[::-1], prefixes[::-1], [4, 3, 2, 1, 0], **way)
    assert_same(other[::-1], found)
    assert answers(find(model, questions, prefixes, **way)) == answers(found)
    assert answers(find(model, questions, prefixes, **way, seed=1)) != answers(found)
    for hypotheses in found:
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True) and len(scores) == 3


@each_way
def test_it_keeps_nothing_for_gradients(way):
    model, logits = toy(), []
    model.output.register_forward_hook(lambda *args: logits.append(args[2]))
    find(model, sources(3, 2), **way)
    assert logits and all(x.is_inference() for x in logits)


def test_a_vocabulary_of_thousands_is_searched_in_chunks_to_the_same_end():
    size = 1_500
    model, questions = toy(vocab_size=size), sources(3, 6, vocab_size=size)
    nn.init.normal_(model.output.weight, std=2.0)
    found = find(model, questions, beam_size=2, n_best=2, max_length=4)
    expected = [beam(after(model, source), 2, 4, n=2) for source in questions]
    assert_same(found, expected)


@pytest.mark.parametrize("way", [{"beam_size": 1}, {"beam_size": 3}], ids=str)
def test_learned_positions_end_an_answer_where_their_table_ends(way):
    model = toy(positions="learned", max_positions=9)
    (found,), *_ = search(model, pad(sources(5)), BOS, 99, SearchOptions(**way))
    assert len(found.ids) == 9 and not found.complete


@each_way
def test_what_learned_positions_have_no_room_for_is_refused(way):
    model, question = toy(positions="learned", max_positions=9), pad(sources(5))
    full = [[5] * 9]
    ((found, *_),) = search(model, question, BOS, EOS, SearchOptions(**way), full)
    assert found.ids == full[0]
    for most in (None, 20):
        options = SearchOptions(**way, max_length=most)
        with pytest.raises(InputError, match="A prefix of 10 tokens is given") as caught:
            search(model, question, BOS, EOS, options, [[5] * 10])
        assert "may have 9" in caught.value.why and caught.value.remedy == "Shorten it."
    with pytest.raises(InputError, match="at least 10 tokens") as caught:
        search(model, question, BOS, EOS, SearchOptions(**way, min_length=10))
    assert "9 positions" in caught.value.why and "min_length" in caught.value.remedy
