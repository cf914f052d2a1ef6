"""Feed-forward networks: equations, and dropout between the two layers only."""

import pytest
import torch
from torch import Tensor, nn

from glassformer.model.feed_forward import (
    FeedForward,
    GELUFeedForward,
    SiLUFeedForward,
    SwiGLUFeedForward,
    TanhGEGLUFeedForward,
    TanhGELUFeedForward,
)

D, F = 6, 6  # equal, so that W₂ can be the identity
KINDS = [FeedForward, GELUFeedForward, TanhGELUFeedForward, SiLUFeedForward, SwiGLUFeedForward]
KINDS += [TanhGEGLUFeedForward]


def affine(linear: nn.Linear, x: Tensor, rows: slice = slice(None)) -> Tensor:
    y = x @ linear.weight[rows].T
    return y if linear.bias is None else y + linear.bias[rows]


def hidden(ffn: nn.Module, x: Tensor) -> Tensor:
    """Compute the values between the two layers by the equation."""
    if isinstance(ffn, TanhGEGLUFeedForward):
        gate, value = affine(ffn.expand, x, slice(0, F)), affine(ffn.expand, x, slice(F, None))
        return (
            gate * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3))) / 2 * value
        )
    if isinstance(ffn, SwiGLUFeedForward):
        gate, value = affine(ffn.expand, x, slice(0, F)), affine(ffn.expand, x, slice(F, None))
        return gate / (1 + torch.exp(-gate)) * value
    h = affine(ffn.expand, x)
    if isinstance(ffn, GELUFeedForward):
        return h * (1 + torch.erf(h / 2**0.5)) / 2
    if isinstance(ffn, TanhGELUFeedForward):
        return h * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h**3))) / 2
    if isinstance(ffn, SiLUFeedForward):
        return h / (1 + torch.exp(-h))
    return torch.where(h > 0, h, 0.0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_module_computes_its_equation(kind, bias):
    ffn, x = kind(D, F, bias).double(), torch.randn(2, 5, D, dtype=torch.float64)
    assert (ffn.expand.bias is not None) == (ffn.contract.bias is not None) == bias
    torch.testing.assert_close(ffn(x), affine(ffn.contract, hidden(ffn, x)), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("closed", "is_silent"), [(slice(0, F), True), (slice(F, None), False)])
def test_the_first_half_of_swiglu_is_the_gate(closed, is_silent):
    ffn = SwiGLUFeedForward(D, F, bias=True)
    nn.init.zeros_(ffn.contract.bias)
    with torch.no_grad():
        ffn.expand.bias[closed] = -1e3  # SiLU is 0 here
    assert (ffn(torch.randn(2, 5, D)).abs().max() < 1e-6) == is_silent


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_between_the_layers_and_in_training_only(kind):
    ffn, x = kind(D, F, dropout=0.5).double(), torch.randn(8, 5, D, dtype=torch.float64)
    with torch.no_grad():
        ffn.contract.weight.copy_(torch.eye(D))  # shows the dropout; b₂ is never dropped
    h = hidden(ffn, x)
    through = ffn.train()(x) - ffn.contract.bias
    is_kept = torch.isclose(through, 2 * h, rtol=0, atol=1e-12)
    is_dropped = through.abs() < 1e-12
    assert (is_kept | is_dropped).all()
    assert (is_kept & ~is_dropped).any() and (is_dropped & ~is_kept).any()
    torch.testing.assert_close(ffn.eval()(x), h + ffn.contract.bias, rtol=0, atol=1e-12)
