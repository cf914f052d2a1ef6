"""Products in another type: what they are, what is left alone, and when bf16 is chosen."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from glassformer.checkpoint import weights_of
from glassformer.config import ModelSettings
from glassformer.model.build import build
from glassformer.train.precision import ShortLinear, products_of, shorten_products

SETTINGS = ModelSettings(
    vocab_size=20, d_model=8, n_heads=2, d_ff=12, encoder_layers=2, decoder_layers=2, dropout=0
)


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_and_its_gradients_are_products_of_that_type(bias):
    """fp32 numbers multiplied in double precision: exact but for the last rounding."""
    layer, x = nn.Linear(5, 7, bias=bias), torch.randn(2, 3, 5, requires_grad=True)
    given = torch.randn(2, 3, 7)
    y = ShortLinear(layer, torch.float64)(x)
    y.backward(given)
    assert torch.equal(y, deepcopy(layer).double()(x.double()).float())
    assert torch.equal(x.grad, (given.double() @ layer.weight.double()).float())
    rows, errors = x.detach().double().flatten(0, 1), given.double().flatten(0, 1)
    assert torch.equal(layer.weight.grad, (errors.t() @ rows).float())
    if bias:
        torch.testing.assert_close(layer.bias.grad, given.sum((0, 1)))


@pytest.mark.parametrize("again", [True, False], ids=["computed again", "remembered"])
def test_a_model_has_its_weights_under_their_names_and_its_gradients(again):
    ids = torch.randint(4, 20, (2, 5))
    models = []
    for products in (None, torch.float64):
        torch.manual_seed(0)
        model = build(SETTINGS, activation_checkpointing=again)
        if products is not None:
            shorten_products(model, products)
            assert not any(type(m) is nn.Linear for m in model.modules())
        model(ids, ids).square().sum().backward()
        models.append(model)
    plain, short = models
    torch.testing.assert_close(weights_of(short), weights_of(plain), rtol=0, atol=0)
    assert short.output.weight is short.decoder.embedding.weight
    ours, theirs = ([p.grad for p in model.parameters()] for model in (short, plain))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["relu", "swiglu"])
def test_only_inside_a_feed_forward_network_numbers_stay_short(kind):
    """In double precision, so that the outputs show no difference."""
    model = build(SETTINGS.model_copy(update={"feed_forward": kind}))
    shorten_products(model, torch.float64)
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, ShortLinear):
            module.register_forward_hook(lambda _, x, y, name=name: found.update({name: y.dtype}))
    model(torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 5)))
    short = {name for name, dtype in found.items() if dtype == torch.float64}
    assert short == {name for name in found if name.endswith("expand")} != set()
    assert set(found.values()) == {torch.float64, torch.float32}


@pytest.mark.parametrize("able", ["avx512_bf16", "amx_bf16", "avx2"])
def test_auto_is_bf16_where_the_processor_multiplies_it(monkeypatch, able):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {able: True})
    assert products_of("auto") == (None if able == "avx2" else torch.bfloat16)
    assert products_of("bf16") == torch.bfloat16
    assert products_of("fp32") is None
