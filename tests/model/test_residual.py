"""Residual connections: the two equations, and dropout on the branch only."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.model.norm import LayerNorm
from glassformer.model.residual import PostNorm, PreNorm

D = 6


class Triple(nn.Module):
    """A norm that shows where it is applied."""

    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


@pytest.fixture
def x() -> Tensor:
    return torch.randn(8, 5, D, dtype=torch.float64)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_the_module_computes_its_equation(kind, x):
    norm = LayerNorm(D).double()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    sublayer = nn.Linear(D, D).double()

    def layer_norm(y: Tensor) -> Tensor:
        return F.layer_norm(y, (D,), norm.gain, norm.bias, norm.eps)

    expected = {
        PostNorm: lambda: layer_norm(x + sublayer(x)),
        PreNorm: lambda: x + sublayer(layer_norm(x)),
    }[kind]()
    torch.testing.assert_close(kind(norm)(x, sublayer), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_dropout_is_applied_to_the_sublayer_output_only(kind, x):
    residual = kind(Triple(), dropout=0.5).train()
    y = residual(x, torch.cos)
    added, branch = (y / 3 - x, x.cos()) if kind is PostNorm else (y - x, (3 * x).cos())
    is_kept = torch.isclose(added, 2 * branch, rtol=0, atol=1e-12)
    is_dropped = added.abs() < 1e-12
    assert (is_kept | is_dropped).all() and is_kept.any() and is_dropped.any()


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_nothing_is_dropped_outside_training(kind, x):
    dropping, plain = kind(Triple(), dropout=0.5).eval(), kind(Triple())
    assert torch.equal(dropping(x, torch.cos), plain(x, torch.cos))
