"""Search in models: greedy, beam, sampling, rules, prefixes, streams and scores."""

from itertools import chain

import numpy as np
import pytest
import torch

from decode.oracles import (
    WAYS,
    after,
    assert_same,
    beam,
    each_decoder,
    each_way,
    never,
    remembering,
    sources,
    toy,
)
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.rows import Rows
from glassformer.decode.search import (
    SearchOptions,
    force_decode,
    output_limits,
    search,
    stream,
    total,
)
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import InputError

V, LIMIT = 12, 7
VARIANTS = [
    {},
    {"positions": "rope", "n_kv_heads": 1, "norm": "rms-norm"},
    {"positions": "alibi", "residual": "post-norm"},
    {"positions": "learned", "tie_source_target": False},
    {"positions": "relative-bucketed", "feed_forward": "swiglu"},
]


def find(decoder, questions, prefixes=None, numbers=None, **options):
    options = SearchOptions(**{"max_length": LIMIT, **options})
    return search(decoder, questions, BOS, EOS, options, prefixes, numbers)


def ids_of(found):
    return [[h.ids for h in hypotheses] for hypotheses in found]


def textbook(model, questions, width, prefixes=None, **changes):
    prefixes = prefixes or [()] * len(questions)
    return [
        beam(remembering(after(model, source)), width, LIMIT, prefix=prefix, **changes)
        for source, prefix in zip(questions, prefixes, strict=True)
    ]


@each_decoder
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_batch_gets_the_textbooks_answers_to_each_sentence_alone(decode, changes, width):
    model, questions = toy(**changes), sources(1, 6, 3, 8, 4)
    found = find(decode(model), questions, beam_size=width, n_best=width)
    assert_same(found, textbook(model, questions, width, n=width))
    assert len({h.log_probability for h in chain(*found)}) == len(questions) * width


@each_decoder
@pytest.mark.parametrize("end", [EOS, 5, 8, V - 1])
def test_any_token_may_be_the_end(decode, end):
    """Sentences leave early, late, together and never."""
    decoder, questions = decode(toy()), sources(1, 6, 3, 8, 4)
    options = SearchOptions(beam_size=1, max_length=LIMIT)
    endless = search(decoder, questions, BOS, V + 5, options)
    found = search(decoder, questions, BOS, end, options)
    for (whole,), (cut,) in zip(endless, found, strict=True):
        assert len(whole.ids) == LIMIT and not whole.complete
        ends = whole.ids.index(end) if end in whole.ids else LIMIT
        assert cut.ids == whole.ids[:ends] and cut.complete == (end in whole.ids)


@each_decoder
@each_way
@pytest.mark.parametrize("prefixes", [[[5, 6]] * 4, [[7], [], [5, 5, 5, 8], [4, 9]]], ids=str)
def test_an_answer_begins_with_its_prefix(decode, way, prefixes):
    model, questions = toy(), sources(1, 6, 3, 8)
    decoder = decode(model)
    found = find(decoder, questions, prefixes, **way)
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert all(h.ids[: len(prefix)] == prefix for h in hypotheses)
    if "sample" not in way:
        width, n = way["beam_size"], way.get("n_best", 1)
        assert_same(found, textbook(model, questions, width, prefixes, n=n))
    assert_rescored(decoder, questions, found)


@each_decoder
@each_way
def test_a_prefix_as_long_as_the_limit_is_the_answer(decode, way):
    decoder, questions = decode(toy()), sources(3, 5)
    prefixes = [[4, 5, 6, 7, 8, 9, 4], [7, 7, 7, 7, 7, 7, 7]]
    found = find(decoder, questions, prefixes, **way)
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert all(h.ids == prefix and not h.complete for h in hypotheses)
    assert_rescored(decoder, questions, found)
    with pytest.raises(InputError) as caught:
        find(decoder, questions, [[4], [5] * (LIMIT + 1)], **way)
    assert f"{LIMIT + 1} tokens" in caught.value.what
    assert str(LIMIT) in caught.value.why and "max_length" in caught.value.remedy


def tokens_of(h):
    return [*h.ids, *([EOS] if h.complete else [])]


def assert_rescored(decoder, questions, found):
    """Force-decode each answer; its log-probability is the one that the search found."""
    for source, hypotheses in zip(questions, found, strict=True):
        targets = [tokens_of(h) for h in hypotheses]
        scores = force_decode(decoder, [source] * len(targets), targets, BOS)
        assert [len(row) for row in scores] == [len(target) for target in targets]
        totals = [total(row) for row in scores]
        assert [h.log_probability for h in hypotheses] == pytest.approx(totals, abs=1e-5)


@each_decoder
@each_way
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_scores_are_those_of_forced_decoding(decode, way, changes):
    decoder, questions = decode(toy(**changes)), sources(1, 6, 3)
    found = find(decoder, questions, **way, no_repeat_ngram=2, min_length=2)
    assert_rescored(decoder, questions, found)


class Table:
    """A Decoder with one distribution per token before: prefill and step agree to the bit."""

    pad_id, reads_source, max_target, vocab_size = PAD, False, None, V

    def __init__(self):
        logits = np.random.default_rng(0).standard_normal((V, V))
        self.rows = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)

    def start(self, sources, batch, width, max_length):
        return self

    def prefill(self, ids):
        return Rows(self.rows[ids])

    def step(self, tokens, parents=None):
        return self.prefill(tokens)

    def keep(self, sentences):
        pass


@each_way
def test_search_and_forced_decoding_sum_to_the_same_bits(way):
    decoder, prefixes = Table(), [[5, 6, 7] * 4, [4] * 12, [4] * 14]
    found = search(decoder, None, BOS, EOS, SearchOptions(**way, max_length=60), prefixes)
    for hypotheses in found:
        scores = force_decode(decoder, None, [tokens_of(h) for h in hypotheses], BOS)
        assert [h.log_probability for h in hypotheses] == [total(row) for row in scores]


@each_decoder
@pytest.mark.parametrize("width", [1, 2])
def test_a_long_answer_is_scored_as_exactly(decode, width):
    """A sum in float32 would be off by ten times as much."""
    decoder, questions, length = decode(toy()), sources(9, 4, 2, 7), 150
    found = find(decoder, questions, beam_size=width, min_length=length, max_length=length)
    totals = [total(s) for s in force_decode(decoder, questions, [h.ids for (h,) in found], BOS)]
    assert max(totals) < -50
    assert [h.log_probability for (h,) in found] == pytest.approx(totals, abs=3e-5, rel=0)
    scores = [t / ((5 + length) / 6) ** 0.6 for t in totals]
    assert [h.score for (h,) in found] == pytest.approx(scores, abs=1e-5, rel=0)


@each_decoder
@torch.inference_mode()
def test_forced_decoding_is_the_log_softmax_of_the_model(decode):
    model, questions = toy(), sources(3, 3)
    targets = [[4, 5, 6, EOS], [7, EOS]]
    logits = model(torch.tensor(questions), torch.tensor([[BOS, 4, 5, 6], [BOS, 7, EOS, EOS]]))
    found = force_decode(decode(model), questions, targets, BOS)
    for row, target, scores in zip(logits.log_softmax(-1), targets, found, strict=True):
        expected = [float(row[i, token]) for i, token in enumerate(target)]
        assert scores.dtype == np.float32
        assert scores.tolist() == pytest.approx(expected, abs=1e-5)


@each_decoder
def test_empty_targets_have_no_scores(decode):
    decoder, questions = decode(toy()), sources(3, 5)
    assert [len(row) for row in force_decode(decoder, questions, [[], []], BOS)] == [0, 0]
    assert [len(row) for row in force_decode(decoder, questions, [[], [5]], BOS)] == [0, 1]
    assert total([]) == 0.0


@each_decoder
@each_way
@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 3), (2, 5), (4, 4)])
def test_answers_keep_the_least_and_greatest_length(decode, way, low, high):
    model, questions = toy(), sources(1, 6, 3, 8)
    found = find(decode(model), questions, **way, min_length=low, max_length=high)
    for h in chain(*found):
        assert low <= len(h.ids) <= high
        assert h.complete or len(h.ids) == high
    if "sample" not in way:
        expected = [
            beam(
                after(model, source), way["beam_size"], high, n=way.get("n_best", 1),
                forbidden=lambda ids: never(ids) | ({EOS} if len(ids) < low else set()),
            )
            for source in questions
        ]  # fmt: skip
        assert_same(found, expected)


def test_the_limit_is_the_papers_by_each_sentences_own_length():
    assert output_limits([4, 1]).tolist() == [54, 51]


@each_decoder
@pytest.mark.parametrize("alpha", [-1.0, 0.6, 3.0])
def test_the_length_penalty_counts_up_to_twice_the_source_and_ten_tokens(decode, alpha):
    model, questions = toy(), [[EOS], [5, EOS]]
    found = find(decode(model), questions, max_length=18, beam_size=2, length_penalty=alpha)
    expected = [
        beam(after(model, source), 2, 18, alpha=alpha, counted=2 * len(source) + 10)
        for source in questions
    ]
    assert_same(found, expected)
    if alpha == 3.0:  # otherwise every answer may be shorter
        assert any(len(h.ids) > 14 for (h,) in found)


@each_decoder
@each_way
def test_without_max_length_the_limit_is_the_papers(decode, way):
    decoder, questions = decode(toy()), [[5, EOS], [4, 5, 6, 7, 8, 4, EOS]]
    options = SearchOptions(**way)
    endless = search(decoder, questions, BOS, V + 5, options)
    for question, hypotheses in zip(questions, endless, strict=True):
        assert {len(h.ids) for h in hypotheses} == {len(question) + 50}
    found = search(decoder, questions, BOS, V + 5, options, [[], [5] * 70])
    assert {len(h.ids) for h in found[0]} == {52} and {len(h.ids) for h in found[1]} == {71}
    longer = SearchOptions(**way, min_length=60)
    found = search(decoder, questions, BOS, EOS, longer)
    assert all(len(h.ids) in (60, 61) for h in found[0] + found[1])


def ngrams(ids, n):
    return [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]


@each_decoder
@each_way
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_comes_twice(decode, way, n):
    """In so few words that without the rule some do."""
    decoder, questions = decode(toy(vocab_size=7)), sources(1, 6, 3, vocab_size=7)
    length = 20
    free = find(decoder, questions, **way, max_length=length, min_length=length)
    assert any(len(set(ngrams(h.ids, n))) < len(ngrams(h.ids, n)) for h in chain(*free))
    low = 3 if n == 1 else 6
    found = find(decoder, questions, **way, max_length=length, min_length=low, no_repeat_ngram=n)
    for h in chain(*found):
        assert len(set(ngrams(h.ids, n))) == len(ngrams(h.ids, n))
        assert h.log_probability > -np.inf


def test_where_no_token_is_left_the_answer_ends():
    """Four words, none twice, cannot make an answer of six."""
    decoder, questions = TorchDecoder(toy(vocab_size=7)), sources(2, 4, vocab_size=7)
    for width in (1, 3):
        found = find(decoder, questions, beam_size=width, min_length=6, no_repeat_ngram=1)
        for (h,) in found:
            assert sorted(h.ids) == [1, 4, 5, 6] and h.complete
            assert h.log_probability > -np.inf


def test_fewer_answers_are_found_where_fewer_exist():
    """Two words, neither of them twice."""
    decoder, questions = TorchDecoder(toy(vocab_size=5)), [[4, EOS]]
    (found,) = find(decoder, questions, beam_size=8, n_best=8, no_repeat_ngram=1)
    assert {tuple(h.ids) for h in found} == {(), (1,), (4,), (1, 4), (4, 1)}
    assert len(found) == 5 and all(h.complete and h.score > -np.inf for h in found)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("n", [1, 2])
def test_the_ngram_rule_is_the_textbooks(width, n):
    model, questions = toy(vocab_size=7), sources(1, 6, 3, vocab_size=7)

    def forbidden(ids):
        last = {t: ngrams((*ids, t), n)[-1:] for t in range(7)}
        return never(ids) | {t for t in range(7) if last[t] and last[t][0] in ngrams(ids, n)}

    found = find(TorchDecoder(model), questions, beam_size=width, n_best=width, no_repeat_ngram=n)
    assert_same(found, textbook(model, questions, width, n=width, forbidden=forbidden))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("factor", [1.3, 4.0])
def test_the_repetition_penalty_is_the_textbooks(width, factor):
    model, questions = toy(), sources(1, 6, 3)
    rule = {"repetition_penalty": factor}
    found = find(TorchDecoder(model), questions, beam_size=width, n_best=width, **rule)
    assert_same(found, textbook(model, questions, width, n=width, factor=factor))


def test_a_prefix_is_not_penalised_however_it_is_read():
    """All at once where prefixes are of one length, step by step where they are not."""
    decoder, questions = TorchDecoder(toy()), sources(4, 4)
    alone, together = (
        find(decoder, q, [[5, 5, 5, 5], *rest], beam_size=3, repetition_penalty=2.0)
        for q, rest in ((questions[:1], []), (questions, [[]]))
    )
    assert_same(alone, together[:1])


@each_decoder
@each_way
def test_padding_and_begin_mark_are_never_produced(decode, way):
    """Although the model gives them most of the probability."""
    model = toy()
    with torch.no_grad():
        model.output.weight[[PAD, BOS]] *= 8
    found = find(decode(model), sources(1, 6, 3, 8), **way)
    assert not {PAD, BOS, EOS} & {token for h in chain(*found) for token in h.ids}
    assert all(h.log_probability > -np.inf for h in chain(*found))


@each_decoder
@pytest.mark.parametrize("way", [{"beam_size": 1}, {"sample": True, "seed": 5}], ids=str)
@pytest.mark.parametrize("prefix", [[], [5, 6]], ids=str)
def test_a_stream_is_the_answer_token_by_token(decode, way, prefix):
    decoder, options = decode(toy()), SearchOptions(**way, max_length=LIMIT)
    for question in sources(3, 8, 1):
        (whole,) = find(decoder, [question], [prefix], **way)
        streamed = list(stream(decoder, question, BOS, EOS, options, prefix))
        assert streamed == whole[0].ids[len(prefix) :]


def test_a_stream_yields_nothing_of_a_prefix_that_fills_it():
    options = SearchOptions(beam_size=1, max_length=3)
    decoder, (question,) = TorchDecoder(toy()), sources(3)
    assert list(stream(decoder, question, BOS, EOS, options, [4, 5, 6])) == []


def test_a_stream_yields_each_token_before_the_next_is_computed():
    model, steps = toy(), []
    model.output.register_forward_hook(lambda *_: steps.append(1))
    (question,) = sources(3)
    tokens = stream(TorchDecoder(model), question, BOS, V + 5, SearchOptions(beam_size=1))
    for number in range(1, 5):
        next(tokens)
        assert len(steps) == number


@pytest.mark.parametrize("way", [{"beam_size": 3}, {"sample": True, "n_best": 2}], ids=str)
def test_several_hypotheses_cannot_be_streamed(way):
    with pytest.raises(InputError, match="cannot be streamed") as caught:
        next(stream(TorchDecoder(toy()), [5, EOS], BOS, EOS, SearchOptions(**way)))
    assert "beam_size=1" in caught.value.remedy and "n_best=1" in caught.value.remedy


@each_decoder
@pytest.mark.parametrize("positions", ["sinusoidal", "rope", "relative"])
@pytest.mark.parametrize("width", [1, 4])
def test_a_language_model_continues_its_prefixes(decode, positions, width):
    model = toy(kind="language-model", positions=positions)
    prefixes = [[], [5], [6, 7, 8], [6, 7, 9]]
    options = SearchOptions(width, width, max_length=LIMIT)
    found = search(decode(model), None, BOS, EOS, options, prefixes)
    expected = [
        beam(after(model, None), width, LIMIT, n=width, prefix=prefix) for prefix in prefixes
    ]
    assert_same(found, expected)
    assert_same(search(decode(model), None, BOS, EOS, options), found[:1])


def test_a_language_model_adds_fifty_tokens_by_default():
    options, prefixes = SearchOptions(beam_size=1), [[4, 5, 6], [7]]
    decoder = TorchDecoder(toy(kind="language-model"))
    found = search(decoder, None, BOS, V + 5, options, prefixes)
    assert [len(h.ids) for (h,) in found] == [53, 51]


@each_decoder
def test_samples_depend_on_the_seed_and_the_number_of_the_sentence(decode):
    decoder = decode(toy())
    questions, prefixes = sources(1, 6, 3, 8, 4), [[], [5], [], [6, 7], []]
    way = WAYS["sample"]
    found = find(decoder, questions, prefixes, **way)
    for i in (3, 0, 4):
        alone = find(decoder, questions[i : i + 1], prefixes[i : i + 1], [i], **way)
        assert_same(alone, [found[i]])
    other = find(decoder, questions[::-1], prefixes[::-1], [4, 3, 2, 1, 0], **way)
    assert_same(other[::-1], found)
    assert ids_of(find(decoder, questions, prefixes, **way, seed=1)) != ids_of(found)
    for hypotheses in found:
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True) and len(scores) == 3


@each_decoder
@pytest.mark.parametrize("way", [{"beam_size": 1}, {"beam_size": 3}], ids=str)
def test_learned_positions_end_an_answer_where_their_table_ends(decode, way):
    model = toy(positions="learned", max_positions=9)
    ((found, *_),) = search(decode(model), sources(5), BOS, 99, SearchOptions(**way))
    assert len(found.ids) == 9 and not found.complete


@each_decoder
@each_way
def test_more_tokens_than_learned_positions_are_refused(decode, way):
    decoder, question = decode(toy(positions="learned", max_positions=9)), sources(5)
    full = [[5] * 9]
    ((found, *_),) = search(decoder, question, BOS, EOS, SearchOptions(**way), full)
    assert found.ids == full[0]
    for most in (None, 20):
        options = SearchOptions(**way, max_length=most)
        with pytest.raises(InputError, match="A prefix of 10 tokens is given") as caught:
            search(decoder, question, BOS, EOS, options, [[5] * 10])
        assert "may have 9" in caught.value.why and caught.value.remedy == "Shorten it."
    with pytest.raises(InputError, match="at least 10 tokens") as caught:
        search(decoder, question, BOS, EOS, SearchOptions(**way, min_length=10))
    assert "9 positions" in caught.value.why and "min_length" in caught.value.remedy
    with pytest.raises(InputError, match="A target of 10 tokens") as caught:
        force_decode(decoder, question, [[5] * 10], BOS)
    assert "9 positions" in caught.value.why


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"prefixes": [[V]]}, f"Token id {V} of a prefix"),
        ({"prefixes": [[-1]]}, "Token id -1 of a prefix"),
        ({"bos": V}, f"Token id {V} of a begin mark"),
        ({"prefixes": [[], []]}, "2 prefixes are given for 1 sentences"),
        ({"numbers": [0, 1]}, "2 numbers are given for 1 sentences"),
        ({"sources": [[]]}, "Source 0 is empty"),
        ({"sources": None}, "A translator was given no sources"),
        ({"sources": [[V + 3]]}, f"Token id {V + 3} is outside"),
    ],
    ids=str,
)
def test_invalid_input_is_refused_before_the_search(arguments, what):
    given = {"sources": [[5, EOS]], "bos": BOS, "eos": EOS, "options": SearchOptions()}
    with pytest.raises(InputError, match=what):
        search(TorchDecoder(toy()), **given | arguments)


def test_invalid_targets_are_refused():
    decoder, question = TorchDecoder(toy()), [[5, EOS]]
    with pytest.raises(InputError, match=f"Token id {V} of a target"):
        force_decode(decoder, question, [[V]], BOS)
    with pytest.raises(InputError, match="1 sources are given for 2 targets"):
        force_decode(decoder, question, [[5], [6]], BOS)
    with pytest.raises(InputError, match="A language model was given sources"):
        force_decode(TorchDecoder(toy(kind="language-model")), question, [[5]], BOS)


def test_an_empty_batch_has_no_answers():
    decoder = TorchDecoder(toy())
    assert search(decoder, [], BOS, EOS, SearchOptions()) == []
    assert force_decode(decoder, [], [], BOS) == []
