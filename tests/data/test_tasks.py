"""Synthetic tasks: each answer is the one that a slow, obvious program gives."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import tasks
from glassformer.data.tasks import FIRST, TASKS, example
from glassformer.data.tokenizer import EOS, PAD
from glassformer.errors import DataError

SYMBOLS = st.lists(st.integers(FIRST, FIRST + 5), min_size=2, max_size=12)


def smallest_first(symbols: list[int]) -> list[int]:
    left, out = list(symbols), []
    while left:
        left.remove(least := min(left))
        out.append(least)
    return out


ORACLES = {
    "copy": lambda x: [x[i] for i in range(len(x))],
    "reverse": lambda x: [x[len(x) - 1 - i] for i in range(len(x))],
    "sort": smallest_first,
}


@pytest.mark.parametrize("task", ORACLES)
@given(symbols=SYMBOLS)
@settings(max_examples=30, deadline=None)
def test_the_labels_equal_the_oracles(task, symbols):
    assert TASKS[task](symbols) == (symbols, ORACLES[task](symbols))


@given(symbols=SYMBOLS)
@settings(max_examples=60, deadline=None)
def test_recall_queries_each_key_once_for_its_latest_value(symbols):
    source, labels = tasks.recall(symbols)
    told = symbols[: len(symbols) // 2 * 2]
    questions, answers = source[len(told) :], labels[len(told) :]
    assert source[: len(told)] == told
    assert labels[: len(told)] == [PAD] * len(told)
    assert sorted(questions) == sorted(set(told[::2]))
    for key, answer in zip(questions, answers, strict=True):
        latest = max(i for i in range(0, len(told), 2) if told[i] == key)
        assert answer == told[latest + 1]


def test_recall_of_a_repeated_key():
    a, b, x, y, z = range(FIRST, FIRST + 5)
    assert tasks.recall([a, x, b, y, a, z]) == (
        [a, x, b, y, a, z, b, a],
        [PAD] * 6 + [y, z],
    )


def test_every_task_has_its_oracle_here():
    assert set(TASKS) == {*ORACLES, "recall"}


@pytest.mark.parametrize("task", TASKS)
def test_an_example_has_a_label_per_source_token_and_only_symbols(task):
    for index in range(200):
        source, labels = example(task, seed=3, index=index, n_symbols=6, lengths=(2, 9))
        assert len(source) == len(labels) > 0
        assert set(source) <= set(range(EOS + 1, EOS + 7))
        assert set(labels) <= {PAD, *source}


def test_all_lengths_and_symbols_occur_and_no_others():
    sources = [example("copy", 0, i, n_symbols=4, lengths=(3, 6))[0] for i in range(300)]
    assert {len(source) for source in sources} == {3, 4, 5, 6}
    assert {s for source in sources for s in source} == set(range(FIRST, FIRST + 4))


@pytest.mark.parametrize("task", TASKS)
def test_an_example_is_a_function_of_seed_and_index_alone(task):
    first = [example(task, 1, i) for i in range(20)]
    np.random.seed(5), random.seed(5)
    assert [example(task, 1, i) for i in reversed(range(20))][::-1] == first
    assert [example(task, 2, i) for i in range(20)] != first
    assert len({tuple(source) for source, _ in first}) == 20


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(DataError) as caught:
        example("revers", 0, 0)
    assert "'revers'" in caught.value.what
    assert all(task in caught.value.why for task in TASKS)
    assert "'reverse'" in caught.value.remedy
