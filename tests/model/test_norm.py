"""Norms: functions and modules against torch and their invariants."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.model.norm import LayerNorm, RMSNorm, layer_norm, rms_norm

D, EPS = 7, 1e-4  # not the ε of torch


def in_module(module):
    """Return the module as a function of its input and parameters."""

    def norm(x: Tensor, *parameters: Tensor) -> Tensor:
        names = [name for name, _ in module.named_parameters()]
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module, values, x)

    return norm


def torch_layer_norm(x, gain, bias):
    return F.layer_norm(x, (D,), gain, bias, EPS)


def torch_rms_norm(x, gain):
    return F.rms_norm(x, (D,), gain, EPS)


CASES = {
    "layer_norm": (lambda x, gain, bias: layer_norm(x, gain, bias, EPS), torch_layer_norm, 2),
    "LayerNorm": (in_module(LayerNorm(D, EPS)), torch_layer_norm, 2),
    "rms_norm": (lambda x, gain: rms_norm(x, gain, EPS), torch_rms_norm, 1),
    "RMSNorm": (in_module(RMSNorm(D, EPS)), torch_rms_norm, 1),
}
every_norm = pytest.mark.parametrize(("ours", "theirs", "parameters"), CASES.values(), ids=CASES)


def arguments(n_parameters: int, *shape: int) -> list[Tensor]:
    """Return an input with one row so small that ε matters, gains and biases."""
    x = torch.randn(*shape, D, dtype=torch.float64)
    x[0] *= 1e-3
    parameters = torch.randn(n_parameters, D, dtype=torch.float64)
    return [tensor.requires_grad_() for tensor in (x, *parameters)]


@every_norm
@pytest.mark.parametrize("shape", [(4,), (2, 3)], ids=str)
def test_values_and_gradients_equal_torch(ours, theirs, parameters, shape):
    inputs = arguments(parameters, *shape)
    above = torch.randn(*shape, D, dtype=torch.float64)
    results = []
    for norm in (ours, theirs):
        output = norm(*inputs)
        results.append([output, *torch.autograd.grad(output, inputs, above)])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)


@every_norm
def test_gradients_equal_finite_differences(ours, theirs, parameters):
    assert torch.autograd.gradcheck(ours, arguments(parameters, 3))


def test_a_new_layer_norm_gives_mean_0_and_variance_1():
    x = torch.randn(5, 64, dtype=torch.float64) * 30 + 100
    y = LayerNorm(64).double()(x)
    torch.testing.assert_close(y.mean(-1), torch.zeros(5, dtype=torch.float64))
    torch.testing.assert_close(
        y.var(-1, correction=0), torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-6
    )


def test_a_new_rms_norm_gives_mean_square_1_and_keeps_the_direction():
    x = torch.randn(5, 64, dtype=torch.float64) * 30 + 100
    y = RMSNorm(64).double()(x)
    ones = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(y.square().mean(-1), ones, rtol=0, atol=1e-6)
    torch.testing.assert_close(F.cosine_similarity(x, y, dim=-1), ones)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_a_constant_input_stays_finite(norm):
    x = torch.zeros(2, D, requires_grad=True)
    y = norm(D)(x)
    y.sum().backward()
    assert (y == 0).all()
    assert x.grad.isfinite().all()
