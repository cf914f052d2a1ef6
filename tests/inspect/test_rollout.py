"""Attention rollout: rows that sum to one, and the sum over all paths."""

from itertools import pairwise, product

import torch

from glassformer.inspect.rollout import rollout


def attention(layers: int, heads: int, rows: int, columns: int, causal: bool = False):
    scores = torch.randn(layers, heads, rows, columns)
    if causal:
        scores = scores.masked_fill(~torch.ones(rows, columns).tril().bool(), -torch.inf)
    return scores.softmax(-1)


def test_every_row_sums_to_one_over_all_inputs() -> None:
    found = rollout(
        {
            "encoder": attention(3, 2, 5, 5),
            "decoder": attention(2, 2, 4, 4, causal=True),
            "cross": attention(2, 2, 4, 5),
        }
    )
    assert {name: tuple(rows.shape) for name, rows in found.items()} == {
        "encoder": (5, 5), "source": (4, 5), "target": (4, 4),
    }  # fmt: skip
    torch.testing.assert_close(found["encoder"].sum(-1), torch.ones(5))
    both = found["source"].sum(-1) + found["target"].sum(-1)
    torch.testing.assert_close(both, torch.ones(4))
    torch.testing.assert_close(found["target"].sum(-1), torch.full((4,), 0.25))  # halved twice
    assert not found["target"].triu(1).any()


def test_rollout_is_the_sum_over_all_paths() -> None:
    """A path takes the residual or the attention of each layer, half each."""
    weights = attention(3, 2, 4, 4)
    expected = torch.zeros(4, 4)
    for way in product(range(4), repeat=4):  # the last layer's position first
        share = 1.0
        for layer, (a, b) in zip((2, 1, 0), pairwise(way), strict=True):
            share = share * (weights[layer, :, a, b].mean() + (a == b)) / 2
        expected[way[0], way[-1]] += share
    torch.testing.assert_close(rollout({"encoder": weights})["encoder"], expected)


def test_identity_attention_mixes_nothing() -> None:
    alone = torch.eye(4).expand(2, 3, 4, 4)
    assert torch.equal(rollout({"encoder": alone})["encoder"], torch.eye(4))
    found = rollout({"encoder": alone, "decoder": alone[:1], "cross": alone[:1]})
    assert torch.equal(found["source"], torch.eye(4) / 2)
    assert torch.equal(found["target"], torch.eye(4) / 2)


def test_a_language_model_has_target_rollout_only() -> None:
    found = rollout({"decoder": attention(2, 2, 5, 5, causal=True)})
    assert list(found) == ["target"] and not found["target"].triu(1).any()
    torch.testing.assert_close(found["target"].sum(-1), torch.ones(5))
