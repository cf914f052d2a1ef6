"""Dropout by four lanes of one draw: rate, expectation, independence, gradient, seeds."""

from math import sqrt

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.dropout import LANES, Dropout, dropout

N = 200_000
rates = pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])


def values(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return random values without zeros, so that a zero was dropped."""
    return torch.rand(shape, dtype=torch.float64).add(0.5).to(dtype)


def check_survivors(y: Tensor, x: Tensor, p: float, rounding: float = 0.0) -> None:
    """Return the values: 0 or x / (1 - p), where p is rounded to 1/65,536."""
    kept = y != 0
    assert y.shape == x.shape and y.dtype == x.dtype
    tolerance = 2**-16 / (1 - p) + rounding
    torch.testing.assert_close(y[kept], (x / (1 - p))[kept], rtol=tolerance, atol=0)


@rates
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_share_p_is_zeroed_and_the_rest_scaled(p, dtype):
    x = values(N, dtype=dtype)
    y = dropout(x, p)
    check_survivors(y, x, p, rounding=2 * torch.finfo(dtype).eps)
    rate = (y == 0).double().mean()
    assert abs(rate - p) < 5 * sqrt(p * (1 - p) / N) + 2**-17


@pytest.mark.parametrize("p", [0.25, 0.5, 0.75])
def test_rates_that_are_binary_fractions_scale_exactly(p):
    x = values(1_000)
    y = dropout(x, p)
    assert torch.equal(y, (x * (1 / (1 - p))).where(y != 0, 0.0))


@rates
def test_the_expectation_is_kept(p):
    y = dropout(torch.ones(N, dtype=torch.float64), p)
    assert abs(y.mean() - 1) < 5 * sqrt(p / (1 - p) / N)


@rates
def test_lanes_of_one_draw_are_identically_distributed_and_independent(p):
    kept = (dropout(torch.ones(N), p) != 0).double().view(-1, LANES)
    draws = kept.size(0)
    assert ((kept.mean(0) - (1 - p)).abs() < 5 * sqrt(p * (1 - p) / draws)).all()
    lanes_and_their_followers = torch.cat((kept[:-1], kept[1:]), dim=1).T
    correlation = torch.corrcoef(lanes_and_their_followers)
    assert (correlation - torch.eye(2 * LANES)).abs().max() < 5 / sqrt(draws)


def test_a_seed_is_reproducible_and_calls_differ():
    x = values(100)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(0)
    x_again = values(100)
    assert torch.equal(first, dropout(x_again, 0.5))
    assert torch.equal(second, dropout(x_again, 0.5))
    assert not torch.equal(first != 0, second != 0)


@rates
def test_the_gradient_has_the_same_mask(p):
    x = values(30, 7).requires_grad_()
    y = dropout(x, p)
    above = values(30, 7)
    (gradient,) = torch.autograd.grad(y, x, above)
    torch.testing.assert_close(gradient, (y / x).detach() * above)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2,), (3,), (5,), (3, 7), (2, 3, 11)], ids=str)
def test_any_number_of_values_works(shape):
    x = values(*shape)
    check_survivors(dropout(x, 0.5), x, 0.5)


def test_a_transposed_input_keeps_its_layout_and_its_values():
    x = values(50, 30).T
    y = dropout(x, 0.3)
    assert y.stride() == x.stride()
    check_survivors(y, x, 0.3)


def test_rate_zero_and_evaluation_are_the_identity():
    x = values(10)
    assert dropout(x, 0.0) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5).eval()(x) is x


def test_the_module_is_active_in_training():
    x = values(1_000)
    module = Dropout(0.3)
    torch.manual_seed(1)
    y = module(x)
    torch.manual_seed(1)
    assert torch.equal(y, dropout(x, 0.3))
    assert not torch.equal(y, x)
    assert "p=0.3" in repr(module)


def test_compiled_code_uses_torch_dropout(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    x = values(100)
    torch.manual_seed(1)
    y = dropout(x, 0.3)
    torch.manual_seed(1)
    assert torch.equal(y, F.dropout(x, 0.3))


@pytest.mark.parametrize("p", [1 - 2**-16, 1 - 2**-18, 1 - 2**-53])
def test_a_rate_just_below_one_drops_nearly_everything(p):
    y = dropout(torch.ones(1_000), p)
    assert y.isfinite().all()
    assert (y == 0).double().mean() > 0.99


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
@pytest.mark.parametrize(
    "make",
    [
        Dropout,
        lambda p: MultiHeadAttention(8, 2, dropout=p),
        lambda p: dropout(torch.ones(8), p),
    ],
    ids=["module", "attention", "function"],
)
def test_a_rate_outside_0_to_1_is_refused(make, p):
    with pytest.raises(InputError, match=f"dropout = {p}") as error:
        make(p)
    assert "0 ≤ dropout < 1" in error.value.why
    assert "0.1" in error.value.remedy
