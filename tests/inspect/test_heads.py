"""Statistics of attention rows on attention of known shape."""

import math

import pytest
import torch

from glassformer.inspect.heads import (
    PLACES,
    agreement,
    distance,
    entropy,
    information,
    jensen_shannon,
    measures,
    pairwise_divergence,
    share,
)


def test_entropy_is_in_bits() -> None:
    uniform = torch.full((3, 8), 1 / 8)
    assert entropy(uniform).tolist() == pytest.approx([3.0] * 3)
    assert entropy(torch.eye(8)).tolist() == [0.0] * 8
    half = torch.tensor([[0.5, 0.5, 0.0, 0.0]])
    assert entropy(half).tolist() == pytest.approx([1.0])


def test_distance_is_from_the_own_position_of_a_row() -> None:
    assert distance(torch.eye(5)).tolist() == [0.0] * 5
    before = torch.eye(5).roll(-1, 1)  # at the token before, the first row at the last
    assert distance(before).tolist() == [4, 1, 1, 1, 1]
    first = torch.zeros(4, 4)
    first[:, 0] = 1
    assert distance(first).tolist() == [0, 1, 2, 3]
    # cross-attention: 3 rows over 5 columns have their own positions at 0, 2 and 4
    assert distance(torch.eye(5)[[0, 2, 4]]).tolist() == [0.0] * 3
    assert distance(torch.eye(5)[[1, 1, 1]]).tolist() == [1, 1, 3]
    assert distance(torch.eye(3)[[2]]).tolist() == [2]  # a single row is at the first


@pytest.mark.parametrize(
    ("place", "weights", "expected"),
    [
        ("same", torch.eye(3), [1, 1, 1]),
        ("previous", torch.eye(3).roll(1, 0), [None, 1, 1]),
        ("next", torch.eye(3).roll(-1, 0), [1, 1, None]),
        ("first", torch.eye(3), [1, 0, 0]),
        ("last", torch.eye(3), [0, 0, 1]),
        ("previous", torch.full((1, 1), 1.0), [None]),
    ],
)
def test_share_is_nan_where_the_position_is_missing(place: str, weights, expected) -> None:
    found = share(weights, place).tolist()
    assert [None if x != x else x for x in found] == expected


def test_measures_have_a_value_per_row_and_shares_sum_to_at_most_one() -> None:
    weights = torch.rand(2, 3, 6, 6).softmax(-1)
    for kind, places in PLACES.items():
        found = measures(weights, kind)
        assert list(found) == ["entropy", "distance", *places]
        for rows in found.values():
            assert rows.shape == (2, 3, 6)
            assert (rows.nan_to_num() >= 0).all()
    three = sum(share(weights, place).nan_to_num() for place in ("previous", "same", "next"))
    assert (three <= 1 + 1e-6).all()


def test_divergence_is_zero_for_equal_heads_and_one_for_disjoint_heads() -> None:
    one, other = torch.eye(4), torch.eye(4).roll(1, 0)
    mixed = (one + other) / 2
    found = pairwise_divergence(torch.stack([one, other, one, mixed]))
    assert found.shape == (4, 4, 4)
    assert torch.equal(found, found.transpose(0, 1))
    assert found[0, 2].tolist() == [0] * 4 and found[0, 0].tolist() == [0] * 4
    assert found[0, 1].tolist() == pytest.approx([1.0] * 4)
    m = torch.tensor([0.75, 0.25])  # the mean of (1, 0) and (½, ½)
    expected = entropy(m[None]).item() - 0.5
    assert found[0, 3].tolist() == pytest.approx([expected] * 4, abs=1e-6)


def test_jensen_shannon_is_its_definition() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.1, 0.2, 0.7]])
    middle = (p + q) / 2

    def kl_to_middle(x: torch.Tensor) -> float:
        pairs = zip(x[0].tolist(), middle[0].tolist(), strict=True)
        return sum(a * math.log2(a / b) for a, b in pairs if a > 0)

    expected = (kl_to_middle(p) + kl_to_middle(q)) / 2
    assert jensen_shannon(p, q).item() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(jensen_shannon(q, p), jensen_shannon(p, q))


def test_information_is_zero_for_equal_rows_and_full_for_a_permutation() -> None:
    equal = torch.full((1, 1, 4, 4), 0.25)
    assert information(equal).item() == pytest.approx(0, abs=1e-6)
    one_each = torch.eye(4)[[2, 0, 3, 1]][None, None]
    assert information(one_each).item() == pytest.approx(2)


def test_agreement_is_the_attention_on_tokens_that_are_for_the_row() -> None:
    saliency = torch.tensor([[2.0, -1.0, 0.0], [1.0, 0.0, 3.0]])
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    shifted = weights.flip(0)
    assert agreement(weights, saliency).item() == pytest.approx((1 + 0.75) / 2)
    assert agreement(shifted, saliency).item() == pytest.approx((0 + 0.25) / 2)
    assert agreement(weights, torch.zeros(2, 3)).item() == 0
