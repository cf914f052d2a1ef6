"""The k largest: torch.topk's, whatever the shape."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decode import top_k as module
from glassformer.decode.top_k import CHUNK, top_k


@pytest.fixture(autouse=True, scope="module")
def _few_are_not_searched_at_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", 0)
        yield


SIZES = st.one_of(
    st.integers(1, 40),
    st.integers(CHUNK - 2, CHUNK + 2),
    st.integers(2 * CHUNK, 12 * CHUNK),  # where chunks are searched, most of them not whole
    st.integers(2, 12).map(lambda n: n * CHUNK),
)


def assert_largest(x, k):
    values, places = top_k(x, k)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(-1, places), values)
    ordered = places.sort(-1).values
    assert (ordered[..., 1:] > ordered[..., :-1]).all(), "no place twice, even where values tie"


@given(
    rows=st.lists(st.integers(1, 3), max_size=2),
    size=SIZES,
    k=st.integers(1, 12),
    levels=st.sampled_from([2, 10, None]),
    cut=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_it_is_torchs_topk(rows, size, k, levels, cut, seed):
    """With ties, where values have few levels, and with minus infinity in a share of places."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(*rows, size, generator=random)
    x = x if levels is None else (x * levels / 3).round()
    x = x.masked_fill(torch.rand(x.shape, generator=random) < cut, -torch.inf)
    assert_largest(x, min(k, size))


@pytest.mark.parametrize("rest", [0, 1, CHUNK - 1])
def test_the_largest_may_stand_anywhere(rest):
    """In the first chunk and the last, and in the rest that fills none."""
    size = 6 * CHUNK + rest
    for place in (0, CHUNK - 1, CHUNK, 6 * CHUNK - 1, size - 1):
        x = torch.zeros(1, 2, size)
        x[..., place] = 1.0
        assert (top_k(x, 2)[1][..., 0] == place).all()


def test_all_of_them_may_stand_in_one_chunk():
    x = torch.zeros(20 * CHUNK + 3)
    x[3 * CHUNK : 3 * CHUNK + 8] = torch.arange(8.0) + 1
    assert top_k(x, 8)[1].tolist() == list(range(3 * CHUNK + 7, 3 * CHUNK - 1, -1))


def test_a_slice_of_something_larger_is_searched_as_it_lies():
    x = torch.randn(3, 5, 9 * CHUNK + 7)
    assert_largest(x[:, -1:], 3)
    assert_largest(x.transpose(0, 1), 3)
