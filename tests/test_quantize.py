"""Weights in eight bits: the error of rounding, which weights are stored so, and back again."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import save
from torch import nn

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, as_arrays, set_weights, weights_of
from glassformer.config import RunSettings, preset
from glassformer.model.build import build
from glassformer.model.embedding import TokenEmbedding
from glassformer.ngrams import WEIGHT, ngram_shapes
from glassformer.quantize import (
    MIN_ROWS,
    SCALE,
    dequantise_weights,
    is_matrix,
    is_quantised,
    quantise_rows,
    quantise_weights,
)

SIZES = {"d_model": 32, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
VARIANTS = [
    {},
    {"tie_target_output": False, "tie_source_target": False},
    {"positions": "learned", "norm": "rms-norm", "feed_forward": "swiglu"},
    {"positions": "relative", "attention_bias": True},
    {"positions": "relative-bucketed", "n_kv_heads": 1},
    {"kind": "language-model"},
    {"kind": "classifier"},
    {"kind": "classifier", "n_classes": 20, "ngrams": 2, "ngram_buckets": 300},
    {"kind": "tagger", "n_classes": 5},
    {"kind": "masked-language-model"},
    {"kind": "masked-language-model", "tie_target_output": False},
]
each_variant = pytest.mark.parametrize("changes", VARIANTS, ids=str)


def model_of(changes: dict[str, object]) -> nn.Module:
    return build("tiny", vocab_size=50, **SIZES, **changes)


# Rows


@given(
    arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements=st.floats(-1e6, 1e6, width=32),
    )
)
def test_a_row_is_off_by_half_a_step_at_most(weight):
    integers, scale = quantise_rows(weight)
    assert integers.dtype == np.int8 and scale.dtype == np.float32
    assert scale.shape == weight.shape[:1] and (scale > 0).all()
    assert np.abs(integers.astype(int)).max(initial=0) <= 127
    error = np.abs(integers * scale[:, None] - weight)
    assert (error <= scale[:, None] * (0.5 + 1e-4)).all()


def test_the_largest_of_each_row_is_127_steps_and_zeros_stay_zeros():
    weight = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [-1e-3, 1e-4, 0.0]], np.float32)
    integers, scale = quantise_rows(weight)
    assert integers.tolist() == [[64, -127, 32], [0, 0, 0], [-127, 13, 0]]
    assert scale.tolist() == pytest.approx([2 / 127, 1e-30 / 127, 1e-3 / 127])


def test_rows_do_not_depend_on_each_other():
    weight = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    integers, scale = quantise_rows(weight)
    for row in range(5):
        alone, own = quantise_rows(weight[row : row + 1])
        assert np.array_equal(alone[0], integers[row]) and own[0] == scale[row]


# Weights of a checkpoint


@each_variant
def test_linear_layers_and_embeddings_are_stored_in_eight_bits_and_nothing_else(changes):
    model = model_of(changes)
    small = quantise_weights(weights_of(model))
    integers = {name for name, array in small.items() if array.dtype == np.int8}
    matrices = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | TokenEmbedding) and len(module.weight) >= MIN_ROWS
    }
    assert integers == matrices & small.keys()
    assert {name + SCALE for name in integers} == {n for n in small if n.endswith(SCALE)}
    assert integers == {n for n in small if is_matrix(n, small[n].shape)}


@each_variant
def test_quantised_weights_come_back_as_weights_and_quantise_to_the_same_integers(changes):
    model = model_of(changes)
    weights = as_arrays(weights_of(model))
    assert not is_quantised(weights)
    small = quantise_weights(weights)
    assert is_quantised(small)
    back = dequantise_weights(small)
    assert back.keys() == weights.keys()
    for name, array in weights.items():
        scale = small[name + SCALE][:, None] if name + SCALE in small else np.float32(0)
        assert back[name].dtype == array.dtype
        assert (np.abs(back[name] - array) <= scale * (0.5 + 1e-4)).all()
    again = quantise_weights(back)
    assert again.keys() == small.keys()
    for name, array in small.items():
        if not name.endswith(SCALE):
            assert np.array_equal(again[name], array)
    set_weights(model, back)  # which checks names and shapes


def test_weights_in_fp32_are_dequantised_to_themselves():
    weights = as_arrays(weights_of(model_of({})))
    back = dequantise_weights(weights)
    assert back.keys() == weights.keys()
    assert all(back[name] is weights[name] for name in weights)


@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_a_head_over_a_few_classes_stays_in_fp32(kind):
    weights = as_arrays(weights_of(model_of({"kind": kind, "n_classes": 5})))
    small = quantise_weights(weights)
    assert "output.weight" + SCALE not in small
    assert np.array_equal(small["output.weight"], weights["output.weight"])


def test_the_file_of_a_small_model_is_less_than_a_third():
    weights = as_arrays(weights_of(build("small")))
    assert len(save(quantise_weights(weights))) <= 0.30 * len(save(weights))


def test_a_quantised_checkpoint_is_written_and_read(tmp_path):
    settings = preset(
        "tiny", kind="classifier", vocab_size=40, **SIZES, ngrams=2, ngram_buckets=300
    )
    numbers = np.random.default_rng(0)
    votes = {n: numbers.normal(size=shape) for n, shape in ngram_shapes(settings).items()}
    small = quantise_weights(as_arrays(weights_of(build(settings))) | votes)
    assert np.array_equal(small[WEIGHT], quantise_rows(votes[WEIGHT])[0])
    assert small["votes.weight"].dtype == np.int8
    assert small["votes.weight" + SCALE].shape == (2,), "a scale per class"
    checkpoint.write(Checkpoint(RunSettings(model=settings), small), tmp_path / "small")
    back = checkpoint.read(tmp_path / "small").weights
    assert dict(back).keys() == small.keys()
    assert all(np.array_equal(back[name], small[name]) for name in small)


def test_nothing_of_it_needs_torch():
    code = "import sys, glassformer.quantize; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
