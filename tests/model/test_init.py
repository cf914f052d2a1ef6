"""Initialisation: a rule for every parameter."""

from itertools import product
from math import sqrt
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from glassformer.config import PRESETS, ModelSettings
from glassformer.errors import InputError
from glassformer.model import init
from glassformer.model.build import build

SCHEMES = ["sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"]
KINDS = get_args(ModelSettings.model_fields["kind"].annotation)
D, F, V = 64, 96, 512
SHRUNK = {"vocab_size": V, "d_model": D, "n_heads": 8, "d_ff": F, "encoder_layers": 2}
SHRUNK |= {"decoder_layers": 2, "max_positions": 128}


def model_of(preset: str = "tiny", **changes: object) -> nn.Module:
    torch.manual_seed(3)
    return build(preset, **SHRUNK | changes)


def assert_xavier(block: Tensor) -> None:
    """Check a uniform distribution in ±√(6 / (fan_in + fan_out))."""
    bound = sqrt(6 / sum(block.shape))
    assert 0.99 * bound < block.abs().max() <= bound
    assert block.std().item() == pytest.approx(bound / sqrt(3), rel=0.05)
    assert abs(block.mean().item()) < 0.05 * bound


def assert_embedding(table: Tensor) -> None:
    """Check a normal distribution with standard deviation 1/√d_model."""
    std = 1 / sqrt(table.size(1))
    assert table.std().item() == pytest.approx(std, rel=0.05)
    assert table.abs().max() > 3 * std


@pytest.mark.parametrize("rule", [init.xavier, init.depth_scaled])
@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        *((name, {}) for name in PRESETS),
        *(("tiny", {"positions": p, "kind": k}) for p, k in product(SCHEMES, KINDS)),
        *(("tiny", {"feed_forward": f, "attention_bias": True}) for f in ("gelu", "swiglu")),
        ("tiny", {"tie_source_target": False, "tie_target_output": False}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_every_parameter_is_initialised(preset, changes, rule):
    model = model_of(preset, **changes)
    for parameter in model.parameters():
        nn.init.constant_(parameter, torch.nan)
    rule(model)
    unset = [name for name, parameter in model.named_parameters() if parameter.isnan().any()]
    assert unset == []


@pytest.mark.parametrize("n_kv_heads", [8, 2])
def test_packed_matrices_are_drawn_by_their_own_sizes(n_kv_heads):
    model = model_of(n_kv_heads=n_kv_heads, feed_forward="swiglu")
    kv = D * n_kv_heads // 8
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert layer.self_attention.qkv.weight.shape == (D + 2 * kv, D)
        for block in layer.self_attention.qkv.weight.split([D, kv, kv]):
            assert_xavier(block)
        for block in layer.feed_forward.expand.weight.split([F, F]):
            assert_xavier(block)
        assert_xavier(layer.self_attention.output.weight)
        assert_xavier(layer.feed_forward.contract.weight)
    for layer in model.decoder.layers:
        assert_xavier(layer.cross_attention.q.weight)
        for block in layer.cross_attention.kv.weight.split([kv, kv]):
            assert_xavier(block)


@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_a_plain_feed_forward_is_two_matrices(kind):
    layer = model_of(feed_forward=kind).encoder.layers[0]
    assert_xavier(layer.feed_forward.expand.weight)
    assert_xavier(layer.feed_forward.contract.weight)


def test_gains_are_one_and_every_bias_is_zero():
    model = model_of(attention_bias=True, positions="relative")
    parameters = dict(model.named_parameters())
    gains = [p for name, p in parameters.items() if name.endswith("gain")]
    biases = [p for n, p in parameters.items() if n.endswith("bias") or "positions" in n]
    assert len(gains) == 2 + 2 * (2 + 3) and all((gain == 1).all() for gain in gains)
    assert len(biases) == 2 + len(gains) + 2 * (2 + 2) + 2 * (2 + 2 + 3)
    assert all((bias == 0).all() for bias in biases)


def test_tables_are_drawn_as_embeddings_and_an_untied_output_as_a_matrix():
    model = model_of(tie_source_target=False, tie_target_output=False, positions="learned")
    for stack in (model.encoder, model.decoder):
        assert_embedding(stack.embedding.weight)
        assert_embedding(stack.positions.weight)
    assert_xavier(model.output.weight)


@pytest.mark.parametrize("kind", ["translator", "language-model", "masked-language-model"])
@pytest.mark.parametrize("rule", [init.xavier, init.depth_scaled])
def test_a_tied_output_stays_tied_and_is_drawn_as_an_embedding(kind, rule):
    model = model_of(kind=kind)
    rule(model)
    stack = model.encoder if kind == "masked-language-model" else model.decoder
    assert model.output.weight is stack.embedding.weight
    assert_embedding(model.output.weight)


@pytest.mark.parametrize("ffn", ["relu", "swiglu"])
@pytest.mark.parametrize("residual", ["pre-norm", "post-norm"])
@pytest.mark.parametrize("kind", ["translator", "language-model", "classifier"])
def test_depth_scaling_shrinks_branch_outputs_only(kind, residual, ffn):
    changes = {"kind": kind, "residual": residual, "feed_forward": ffn, "decoder_layers": 3}
    plain, scaled = (
        dict(model_of(init=rule, **changes).named_parameters())
        for rule in ("xavier", "depth-scaled")
    )
    branches = {"encoder": 2 * 2, "decoder": 3 * (3 if kind == "translator" else 2)}
    shrunk = 0
    for name, parameter in plain.items():
        is_branch_end = name.endswith(("attention.output.weight", "feed_forward.contract.weight"))
        factor = sqrt(branches[name.split(".")[0]]) if is_branch_end else 1.0
        torch.testing.assert_close(scaled[name] * factor, parameter)
        shrunk += is_branch_end
    stacks = {name.split(".")[0] for name in plain} & branches.keys()
    assert shrunk == sum(branches[stack] for stack in stacks)


@pytest.mark.parametrize("stranger", [nn.Conv1d(2, 2, 1), nn.LayerNorm(4), nn.PReLU()])
def test_a_module_without_a_rule_is_refused_by_name(stranger):
    with pytest.raises(InputError, match=f"{type(stranger).__name__} has parameters") as caught:
        init.xavier(nn.Sequential(nn.ReLU(), stranger))
    assert "noise" in caught.value.why
    assert "xavier() in model/init.py" in caught.value.remedy
