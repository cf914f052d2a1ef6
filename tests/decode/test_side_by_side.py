"""A batch in parts: the same answers in the same order, whoever computes them."""

from multiprocessing import get_context
from threading import Thread, current_thread, main_thread

import pytest
import torch

from decode.oracles import WAYS, assert_same, each_way, sources, toy
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode import side_by_side as parting
from glassformer.decode.replay import record
from glassformer.decode.search import SearchOptions, search
from glassformer.decode.side_by_side import side_by_side
from glassformer.errors import InputError
from glassformer.model.attention import record_attention

V, LIMIT = 12, 7


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch):
    monkeypatch.setattr(parting, "LEAST_ROWS", 1)
    monkeypatch.setattr(parting, "LEAST_PRODUCTS", 1)
    torch.set_num_threads(3)


def who(part):
    """A part's share of seven sentences, and what it is computed by."""
    return [(i, current_thread().name, torch.get_num_threads()) for i in range(7)[part]]


def find(models, questions, way, prefixes=None, numbers=None):
    source = None if questions is None else pad(questions)
    options = SearchOptions(max_length=LIMIT, **way)
    return search(models, source, BOS, EOS, options, prefixes, numbers)


def test_every_part_has_threads_of_its_own():
    found = side_by_side(who, 7, 1, 1)
    assert [i for i, *_ in found] == list(range(7))
    assert {name for _, name, _ in found} <= {f"search_{i}" for i in range(3)}
    assert {threads for *_, threads in found} == {1}


@pytest.mark.parametrize("width, parts", [(1, 1), (2, 1), (3, 2), (6, 3), (60, 3)])
@pytest.mark.parametrize("rows, products", [(10, 1), (1, 500)])
def test_a_part_has_enough_to_do(width, parts, rows, products, monkeypatch):
    monkeypatch.setattr(parting, "LEAST_ROWS", rows)
    monkeypatch.setattr(parting, "LEAST_PRODUCTS", products)
    taken = side_by_side(lambda part: [part], 7, width, weights=50)
    assert len(taken) == parts
    assert [i for part in taken for i in range(7)[part]] == list(range(7))


def test_threads_that_have_no_part_help_the_others(monkeypatch):
    monkeypatch.setattr(parting, "LEAST_ROWS", 3)  # rows: two parts
    torch.set_num_threads(5)
    assert {threads for *_, threads in side_by_side(who, 7, 1, 1)} == {2}


def test_the_number_of_threads_of_everybody_else_stays():
    torch.set_num_threads(4)
    side_by_side(who, 7, 1, 1)
    later = []
    asking = Thread(target=lambda: later.append(torch.get_num_threads()))
    asking.start()
    asking.join()
    assert (torch.get_num_threads(), *later) == (4, 4)


@pytest.mark.parametrize("threads, sentences", [(1, 7), (3, 1), (3, 0)])
def test_what_cannot_be_parted_stays_where_it_is(threads, sentences):
    torch.set_num_threads(threads)
    (taken,) = side_by_side(lambda part: [(part, current_thread())], sentences, 5, 1)
    assert taken == (slice(None), main_thread())


def test_a_forked_process_has_threads_of_its_own():
    side_by_side(who, 7, 1, 1)
    with get_context("fork").Pool(1) as child:
        assert len(child.apply_async(side_by_side, (who, 7, 1, 1)).get(timeout=60)) == 7


@each_way
@pytest.mark.parametrize("kind", ["translator", "language-model"])
def test_answers_are_those_to_the_whole(way, kind):
    model, questions = toy(V, kind=kind), sources(1, 6, 3, 8, 4, 5, 2, vocab_size=V)
    prefixes = [[], [5], [], [6, 7], [4], [], [8]]
    asked = questions if kind == "translator" else None
    expected = find(model, asked, way, prefixes)
    record(model, often=3)
    for _ in range(4):  # as it is, while one part records, and played back
        assert_same(find(model, asked, way, prefixes), expected)


def test_what_is_drawn_for_a_sentence_goes_with_its_number():
    model, questions = toy(V), sources(4, 4, 4, 4, 4, vocab_size=V)
    numbers, way = [9, 2, 7, 4, 0], {"sample": True}
    expected = find(model, questions, way, numbers=numbers)
    record(model, often=0)
    assert_same(find(model, questions, way, numbers=numbers), expected)


def test_an_ensemble_is_parted_if_all_of_it_can_be(monkeypatch):
    models, questions = [toy(V), toy(V)], sources(3, 5, 2, 6, vocab_size=V)
    expected, asked = find(models, questions, WAYS["beam"]), []
    workers = parting._workers
    monkeypatch.setattr(parting, "_workers", lambda *n: asked.append(n) or workers(*n))
    record(models[0], often=0)
    assert_same(find(models, questions, WAYS["beam"]), expected)
    assert not asked
    record(models[1], often=0)
    assert_same(find(models, questions, WAYS["beam"]), expected)
    assert asked == [(3, 1)]


def test_who_looks_on_sees_one_batch():
    model, questions = toy(V), sources(3, 5, 2, 6, vocab_size=V)
    record(model, often=0)
    with record_attention(model) as maps:
        find(model, questions, WAYS["greedy"])
    assert all(len(weights) == 4 for heads in maps.values() for weights in heads[:1])


def test_what_a_part_complains_of_is_heard_and_nothing_is_left_behind():
    model, questions = toy(V), sources(3, 5, 2, 6, vocab_size=V)
    record(model, often=0)
    expected = find(model, questions, WAYS["beam"])
    with pytest.raises(InputError, match="A prefix of 8 tokens"):
        find(model, questions, WAYS["beam"], [[], [], [], [5] * 8])
    assert_same(find(model, questions, WAYS["beam"]), expected)
