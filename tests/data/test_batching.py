"""Batches: every example once, none over the budget, hardly a cell padded, always the same."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.batch import pad
from glassformer.data.batching import Padding, TokenBatches

LENGTHS = st.integers(1, 2).flatmap(
    lambda sides: st.lists(
        st.lists(st.integers(1, 30), min_size=sides, max_size=sides), min_size=1, max_size=60
    )
)


def captions(count: int = 5_000) -> np.ndarray:
    """Lengths as captions have them: skewed, about 12 ± 5, the longer source the longer target."""
    generator = np.random.default_rng(0)
    source = 4 + generator.negative_binomial(3, 0.27, count)
    target = np.maximum(3, source + generator.normal(1, 2, count).round().astype(int))
    return np.stack([source, target], 1)


def as_lists(batches) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(lengths=LENGTHS, budget=st.integers(1, 200), number=st.integers(0, 3), shuffle=st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_epoch_holds_every_example_once_and_no_batch_over_its_budget(
    lengths, budget, number, shuffle
):
    batches = TokenBatches(np.array(lengths), budget).epoch(number, shuffle)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        cells = len(batch) * max(max(lengths[i]) for i in batch)
        assert cells <= budget or len(batch) == 1


def test_batches_are_as_full_as_the_budget_allows():
    (batch,) = TokenBatches(np.array([[3, 5]] * 4), budget=20).epoch(0)
    assert sorted(batch) == [0, 1, 2, 3]
    assert len(TokenBatches(np.array([[3, 5]] * 4), budget=19).epoch(0)) == 2


def test_one_column_of_lengths_may_be_flat():
    flat, column = np.array([4, 2, 9]), np.array([[4], [2], [9]])
    assert as_lists(TokenBatches(flat, 9).epoch(0)) == as_lists(TokenBatches(column, 9).epoch(0))


@pytest.mark.parametrize("shape", [(0,), (0, 1), (0, 2)])
def test_no_examples_make_no_batches(shape):
    batches = TokenBatches(np.empty(shape, np.int64), 10)
    assert batches.epoch(0) == []
    assert batches.padding([]).share == 0


def test_the_order_is_a_function_of_seed_and_epoch_alone():
    lengths = captions(300)

    def order(seed: int, number: int) -> list[list[int]]:
        return as_lists(TokenBatches(lengths, 100, seed).epoch(number))

    first = order(1, 2)
    for reseed in (np.random.seed, random.seed, torch.manual_seed):
        reseed(7)
    batches = TokenBatches(lengths, 100, 1)
    batches.epoch(5), batches.epoch(0)  # what was asked before must not matter
    assert as_lists(batches.epoch(2)) == first
    assert order(1, 3) != first and order(2, 2) != first


def test_making_batches_leaves_the_global_generators_alone():
    states = np.random.get_state()[1].tolist(), random.getstate(), torch.get_rng_state()
    TokenBatches(captions(300), 100).epoch(0)
    assert np.random.get_state()[1].tolist() == states[0]
    assert random.getstate() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])


def test_epochs_differ_in_the_order_of_batches_and_in_who_meets_whom():
    batches = TokenBatches(captions(1_000), 100)
    first, second = (as_lists(batches.epoch(n)) for n in (0, 1))
    assert {frozenset(b) for b in first} != {frozenset(b) for b in second}
    widths = [[int(batches.lengths[b].max()) for b in epoch] for epoch in (first, second)]
    assert widths[0] != widths[1]
    assert widths[0] != sorted(widths[0]), "long and short batches come mixed"


def test_without_shuffling_the_epoch_number_does_not_matter():
    batches = TokenBatches(captions(300), 100)
    first, second = (as_lists(batches.epoch(n, shuffle=False)) for n in (0, 1))
    assert first == second
    targets = [batches.lengths[b, 1].max() for b in first]
    assert targets == sorted(targets)


@given(lengths=LENGTHS, budget=st.integers(1, 200))
@settings(max_examples=30, deadline=None)
def test_the_padding_is_what_padded_tensors_hold(lengths, budget):
    batches = TokenBatches(np.array(lengths), budget)
    epoch = batches.epoch(0)
    padded = [
        pad([[1] * lengths[i][side] for i in b]) for b in epoch for side in range(len(lengths[0]))
    ]
    counted = batches.padding(epoch)
    assert counted == Padding(sum(int(x.sum()) for x in padded), sum(x.numel() for x in padded))
    assert counted.share == pytest.approx(1 - counted.real / counted.cells)


def test_captions_are_hardly_padded():
    lengths = captions()
    assert abs(lengths[:, 0].mean() - 12) < 1 and abs(lengths[:, 0].std() - 5) < 1
    bucketed = TokenBatches(lengths, 700)  # as many batches as Multi30k has with 4,096
    epoch = bucketed.epoch(0)
    shuffled = np.array_split(np.random.default_rng(0).permutation(len(lengths)), len(epoch))
    share = bucketed.padding(epoch).share
    assert share < 0.05
    assert share < bucketed.padding(shuffled).share / 5
