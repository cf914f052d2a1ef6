"""The k best tokens of rows of log-probabilities."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decode.rows import Rows
from glassformer.decode.torch_decoder import TorchScores


def textbook(rows, k, banned):
    """Sort by value, then by id; drop what is forbidden; pad."""

    def best(row):
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        kept = [i for i in order if i not in banned and row[i] > -np.inf][:k]
        missing = k - len(kept)
        return [*(row[i] for i in kept), *[-np.inf] * missing], [*kept, *[0] * missing]

    found = [[best(row) for row in sentence] for sentence in rows.tolist()]
    return [[v for v, _ in s] for s in found], [[i for _, i in s] for s in found]


class Exact(TorchScores):
    """Scores whose log-probabilities are given, not computed from logits."""

    def _log_probs(self):
        return self.logits.clone()


@pytest.mark.parametrize("scores", [Rows, lambda x: Exact(torch.tensor(x))], ids=["numpy", "torch"])
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 20)),
    k=st.integers(1, 12),
    banned=st.sets(st.integers(0, 3)),
    levels=st.sampled_from([1, 3, 1_000]),
    cut=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=100, deadline=None)
def test_the_best_come_first_and_equal_ones_by_the_lower_id(
    scores, shape, k, banned, levels, cut, seed
):
    """With ties, where values have few levels, and with minus infinity in a share of places."""
    random = np.random.default_rng(seed)
    rows = (random.integers(-levels, 0, shape) / 8).astype(np.float32)
    rows[random.random(shape) < cut] = -np.inf
    banned = [i for i in banned if i < shape[-1]]
    before = rows.copy()
    values, ids = scores(rows).top(k, banned)
    assert values.dtype == np.float32 and ids.dtype == np.int64
    assert (values.tolist(), ids.tolist()) == textbook(before, k, banned)
    assert np.array_equal(rows, before)


def test_rows_are_a_copy():
    scores = Rows(np.zeros((1, 2, 3)))
    scores.rows()[:] = 1
    assert not scores.rows().any() and scores.rows().dtype == np.float32
