"""Parts of a batch on threads, and steps that a decoder takes by itself: the same answers."""

from multiprocessing import get_context
from threading import Event, current_thread
from time import monotonic, sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decode.oracles import WAYS, assert_same, each_way, sources, toy
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.beam import advance
from glassformer.decode.ensemble import Ensemble
from glassformer.decode.search import SearchOptions, _in_parts, force_decode, search, slices
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import InputError

LIMIT = 7


class InParts(TorchDecoder):
    """Asks for three parts and notes which threads start them."""

    def __init__(self, model, n_parts=3):
        super().__init__(model)
        self.n_parts, self.threads, self.sizes = n_parts, set(), []

    def parts(self, batch, width):
        return self.n_parts

    def start(self, sources, batch, width, max_length):
        self.threads.add(current_thread().name)
        self.sizes.append(batch)
        return super().start(sources, batch, width, max_length)


class Running(TorchDecoder):
    """Its decodings take steps by themselves."""

    def __init__(self, model):
        super().__init__(model)
        self.steps = []

    def start(self, *arguments):
        decoding = super().start(*arguments)
        decoding.run = lambda *given: run(decoding, self.steps, *given)
        return decoding


STEPS = 8  # of one call


def run(decoding, taken, beam, bos, eos, alpha, candidates):
    for _ in range(STEPS):
        before = beam.live[: beam.n_live[0]].copy()
        if not len(before):
            return
        last = int(beam.length[before[0]]) - 1
        if last < 0:
            scores = decoding.prefill(np.full((len(before), 1), bos))
        else:
            latest = (x[before, last].astype(np.int64) for x in (beam.tokens, beam.parents))
            scores = decoding.step(*latest)
        values, ids = scores.top(candidates.tokens.shape[1], beam.banned.tolist())
        advance(beam, values, ids, eos, alpha, candidates)
        decoding.keep(np.searchsorted(before, beam.live[: beam.n_live[0]]))
        taken.append(last + 1)  # the position that was decided


def find(decoder, questions, prefixes=None, numbers=None, **options):
    options = SearchOptions(**{"max_length": LIMIT, **options})
    return search(decoder, questions, BOS, EOS, options, prefixes, numbers)


@each_way
@pytest.mark.parametrize("kind", ["translator", "language-model"])
def test_answers_of_parts_are_those_of_the_whole(way, kind):
    model, questions = toy(kind=kind), sources(1, 6, 3, 8, 4, 5, 2)
    asked = questions if kind == "translator" else None
    prefixes, numbers = [[], [5], [], [6, 7], [4], [], [8]], [9, 2, 7, 4, 0, 1, 3]
    decoder = InParts(model)
    found = find(decoder, asked, prefixes, numbers, **way)
    assert_same(found, find(TorchDecoder(model), asked, prefixes, numbers, **way))
    assert len(decoder.sizes) == 3 and sum(decoder.sizes) == 7
    assert all(name.startswith("search") for name in decoder.threads)


def test_forced_decoding_goes_in_parts_too():
    model, questions = toy(), sources(1, 6, 3, 8)
    targets, decoder = [[5, 6], [7], [4, 4, 4], []], InParts(model)
    found = force_decode(decoder, questions, targets, BOS)
    expected = force_decode(TorchDecoder(model), questions, targets, BOS)
    assert len(decoder.sizes) == 3
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tolist() == pytest.approx(theirs.tolist(), abs=1e-5)


def test_an_observer_sees_one_batch():
    class Nothing:
        def on_prefix(self, prefix, log_probs): ...
        def on_scores(self, sentences, log_probs): ...
        def on_step(self, step): ...

    decoder, options = InParts(toy()), SearchOptions(max_length=3)
    search(decoder, sources(3, 5, 2), BOS, EOS, options, observer=Nothing())
    assert decoder.sizes == [3]


def test_an_ensemble_is_split_if_all_members_can_be():
    models, questions = [toy(), toy()], sources(3, 5, 2, 6)
    expected = find([*map(TorchDecoder, models)], questions, **WAYS["beam"])
    assert Ensemble([InParts(models[0]), InParts(models[1], 2)]).parts(4, 1) == 2
    assert Ensemble([InParts(models[0]), TorchDecoder(models[1])]).parts(4, 1) == 1
    assert_same(find([*map(InParts, models)], questions, **WAYS["beam"]), expected)


@given(costs=st.lists(st.integers(1, 90), max_size=12), n_parts=st.integers(1, 5))
def test_parts_are_contiguous_and_cost_about_the_same(costs, n_parts):
    found = slices(np.array(costs, np.int64), n_parts)
    assert [i for part in found for i in range(len(costs))[part]] == list(range(len(costs)))
    assert len(found) <= n_parts
    share = sum(costs) / n_parts
    for part in found:
        assert 0 < sum(costs[part]) <= share + max(costs)


def test_a_failing_part_stops_the_others_and_its_error_is_raised():
    begun, stopped_early = Event(), []

    def answer(part, stopped):
        if part.start == 0:
            begun.wait(10)
            raise InputError("This part fails.", "It is a test.", "Nothing.")
        begun.set()
        start = monotonic()
        while not stopped.is_set() and monotonic() - start < 10:
            sleep(0.001)
        stopped_early.append(stopped.is_set())
        return []

    with pytest.raises(InputError, match="This part fails"):
        _in_parts(answer, np.ones(2, np.int64), 2)
    assert stopped_early == [True]


def test_a_forked_process_has_threads_of_its_own():
    def numbers(part, stopped):
        return list(range(7))[part]

    assert _in_parts(numbers, np.ones(7, np.int64), 3) == list(range(7))
    context = get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(_in_parts(numbers, np.ones(7, np.int64), 3)))
    child.start()
    child.join(60)
    assert child.exitcode == 0 and queue.get() == list(range(7))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("kind", ["translator", "language-model"])
def test_a_decoder_that_runs_by_itself_gives_the_same_answers(width, kind):
    model, questions = toy(kind=kind), sources(1, 6, 3, 8)
    asked, decoder = questions if kind == "translator" else None, Running(model)
    way = {"beam_size": width, "n_best": width, "max_length": 30, "min_length": 4}
    prefixes = [[], [5, 6], [], [7]]
    found = find(decoder, asked, prefixes, **way)
    assert_same(found, find(TorchDecoder(model), asked, prefixes, **way))
    assert min(decoder.steps) == 4, "as soon as no rule is left but the banned ids"


@pytest.mark.parametrize(
    "options", [{"no_repeat_ngram": 2}, {"repetition_penalty": 1.2}, {"sample": True}], ids=str
)
def test_a_decoder_does_not_run_by_itself_under_other_rules(options):
    decoder = Running(toy())
    find(decoder, sources(3, 5), **options)
    assert decoder.steps == []
