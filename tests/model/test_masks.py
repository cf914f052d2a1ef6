"""Masks against loops, and wrong masks refused on every path."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model.attention import (
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from glassformer.model.masks import causal_mask, padding_mask, target_mask

B, H, T, S, D = 3, 2, 4, 5, 8

lengths = st.integers(1, 12)
pasts = st.integers(0, 12)
pad_ids = st.integers(0, 2)
batches = lengths.flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=4)
)
quick = settings(max_examples=40, deadline=None)


@quick
@given(lengths, pasts)
def test_a_causal_mask_allows_a_position_and_those_before_it(length, past):
    expected = [[j <= past + i for j in range(past + length)] for i in range(length)]
    assert causal_mask(length, past).tolist() == [[expected]]


@quick
@given(lengths, pasts)
def test_a_causal_mask_with_a_past_is_the_last_rows_of_the_full_mask(length, past):
    assert torch.equal(causal_mask(length, past), causal_mask(past + length)[:, :, past:])


@quick
@given(batches, pad_ids)
def test_a_padding_mask_allows_real_tokens(ids, pad_id):
    expected = [[[[token != pad_id for token in row]]] for row in ids]
    assert padding_mask(torch.tensor(ids), pad_id).tolist() == expected


@quick
@given(batches, pad_ids)
def test_a_target_mask_allows_real_tokens_up_to_a_position(ids, pad_id):
    expected = [
        [[[j <= i and row[j] != pad_id for j in range(len(row))] for i in range(len(row))]]
        for row in ids
    ]
    assert target_mask(torch.tensor(ids), pad_id).tolist() == expected


def test_a_begin_mark_with_the_id_of_padding_is_attended_to():
    ids = torch.tensor([[0, 4, 0]])
    assert target_mask(ids, 0, begin_mark=True)[0, 0].tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, False],
    ]


def through_kernel(kernel):
    def attend(mask: Tensor, queries: int, keys: int) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        q, k = (torch.randn(B, H, n, D, generator=generator) for n in (queries, keys))
        return kernel(q, k, k, mask)[0]

    return attend


def through_module(kernel):
    def attend(mask: Tensor, queries: int, keys: int) -> Tensor:
        torch.manual_seed(0)
        attention = MultiHeadAttention(D, H, cross=True, kernel=kernel)
        return attention(torch.randn(B, queries, D), torch.randn(B, keys, D), mask)

    return attend


every_way_in = pytest.mark.parametrize(
    "attend",
    [
        way(kernel)
        for way in (through_kernel, through_module)
        for kernel in (scaled_dot_product_attention, fused_attention)
    ],
    ids=["readable", "fused", "module-readable", "module-fused"],
)


@every_way_in
@pytest.mark.parametrize("shape", [(B, 1, 1, S), (1, 1, T, S), (1, 1, 1, S)], ids=str)
def test_a_mask_is_broadcast_over_batch_and_queries_only(attend, shape):
    mask = torch.rand(shape) < 0.5
    full = mask.expand(B, 1, T, S).clone()
    torch.testing.assert_close(attend(mask, T, S), attend(full, T, S))
    assert not torch.allclose(attend(mask, T, S), attend(~mask, T, S))


WRONG_SHAPES = {
    "rank 1": (S,),
    "rank 2": (T, S),
    "rank 3": (B, T, S),
    "rank 5": (B, 1, 1, T, S),
    "another batch": (B - 1, 1, T, S),
    "a mask per head": (B, H, T, S),
    "no queries": (B, 1, 0, S),
    "too few queries": (B, 1, T - 1, S),
    "too many queries": (B, 1, T + 1, S),
    "too few keys": (B, 1, T, S - 1),
    "too many keys": (B, 1, T, S + 1),
    "one key for all": (B, 1, T, 1),
    "queries and keys exchanged": (B, 1, S, T),
    "one cell": (1, 1, 1, 1),
}


def check_refusal(attend, mask: Tensor, queries: int, keys: int, what: str, remedy: str) -> None:
    """The error names the shape of the mask and the required shape."""
    with pytest.raises(InputError, match=what) as error:
        attend(mask, queries, keys)
    assert str(tuple(mask.shape)) in error.value.what
    assert f"({B} or 1, 1, {queries} or 1, {keys})" in error.value.why
    assert remedy in error.value.remedy


@every_way_in
@pytest.mark.parametrize("shape", WRONG_SHAPES.values(), ids=WRONG_SHAPES)
def test_a_mask_of_the_wrong_shape_is_refused(attend, shape):
    what = f"{len(shape)} dimensions" if len(shape) != 4 else rf"the scores \({B}, {H}, {T}, {S}\)"
    check_refusal(attend, torch.ones(shape, dtype=torch.bool), T, S, what, "padding_mask(ids)")


@every_way_in
def test_a_padding_mask_along_the_queries_is_refused(attend):
    """Broadcast over the keys, it would mask whole queries instead."""
    along_queries = padding_mask(torch.ones(B, S, dtype=torch.long)).transpose(-1, -2)
    check_refusal(attend, along_queries, S, S, "the scores", "from the ids of the keys")


@every_way_in
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=str)
def test_a_mask_that_is_not_boolean_is_refused(attend, dtype):
    mask = torch.ones(B, 1, T, S, dtype=dtype)
    check_refusal(attend, mask, T, S, f"dtype {dtype}", "mask.bool()")
