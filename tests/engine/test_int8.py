"""INT8: products against exact integers in numpy, and whole models against the same in torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from engine.child import integer_product, tagger_of
from engine.toys import arrays, engine, sentences, toy
from glassformer.checkpoint.weights import set_weights
from glassformer.data.tokenizer import BOS
from glassformer.engine.model import CompiledModel
from glassformer.engine.sizes import LEVELS
from glassformer.quantize import MIN_ROWS, dequantise_weights, quantise_weights

KINDS = ("translator", "language-model", "masked-language-model")
each_kind = pytest.mark.parametrize("kind", KINDS)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 14), inputs=st.integers(1, 300), outputs=st.integers(16, 200),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_integer_sums_are_exact(rows: int, inputs: int, outputs: int, seed: int) -> None:
    ours, exact = integer_product(rows, inputs, outputs, seed)
    assert np.abs(exact).max() < 2**24, "a float holds them"
    assert (np.rint(ours) == exact).all()
    assert ours == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("size", [(1, 20, 16), (5, 33, 65), (13, 128, 70)], ids=str)
def test_a_row_has_one_scale_and_the_nearest_integers(size: tuple[int, int, int]) -> None:
    """Values are kept away from the middle between two integers, where rounding may go astray."""
    rows, inputs, outputs = size
    random = np.random.default_rng(0)
    whole = random.integers(1 - LEVELS, LEVELS, (rows, inputs))
    largest = random.lognormal(sigma=3, size=(rows, 1))
    x = (whole + random.uniform(-0.4, 0.4, whole.shape)) * largest / LEVELS
    x[:, 0], whole[:, 0] = largest[:, 0], LEVELS
    w = random.integers(-127, 128, (outputs, inputs))
    scale, bias = random.lognormal(size=outputs), random.normal(size=outputs)
    scale, bias = scale.astype(np.float32), bias.astype(np.float32)
    ours = tagger_of(w.astype(np.int8), scale, bias)._output(x.astype(np.float32))
    units = (largest / LEVELS) * scale
    assert np.rint((ours - bias) / units) == pytest.approx(whole @ w.T, abs=0.5)
    assert ours == pytest.approx((whole @ w.T) * units + bias, rel=1e-5, abs=1e-5 * units.max())


def test_a_row_of_zeros_gives_the_bias() -> None:
    bias = np.arange(16, dtype=np.float32)
    model = tagger_of(np.full((16, 20), 127, np.int8), np.ones(16, np.float32), bias)
    assert (model._output(np.zeros((3, 20), np.float32)) == bias).all()


@contextmanager
def eight_bits(model: nn.Module) -> Iterator[None]:
    """Round the input of every large linear layer to LEVELS steps of each row's largest value."""

    def rounded(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        size = inputs[0].abs().amax(-1, keepdim=True).clamp(min=1e-30)
        return (torch.floor(inputs[0] * LEVELS / size + 0.5) * size / LEVELS,)

    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    large = [layer for layer in layers if layer.out_features >= MIN_ROWS]
    hooks = [layer.register_forward_pre_hook(rounded) for layer in large]
    yield
    for hook in hooks:
        hook.remove()


def compared(model: Any, compiled: CompiledModel) -> np.ndarray:
    """Differences of log-probabilities (logits of a masked language model) from a torch model's."""
    sources, ids = sentences(17), [[BOS, *sentences(18, seed=1)[0]]]
    with torch.inference_mode():
        if model.settings.kind == "masked-language-model":
            return compiled.tag(ids)[0] - model(torch.tensor(ids))[0].numpy()
        given = [torch.tensor(x) for x in (sources, ids)[-2 if compiled.reads_source else -1 :]]
        expected = model(*given).log_softmax(-1).numpy()
    source = sources if compiled.reads_source else None
    return compiled.start(source, 1, 1, len(ids[0])).prefill(np.array(ids)).rows() - expected


@each_kind
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_computes_with_eight_bits_what_torch_computes_with_them(
    kind: str, tied: bool
) -> None:
    """In fp64; a value in the middle between two integers may be rounded either way."""
    model = toy(kind=kind, tie_target_output=tied)
    compiled = engine(model, int8=True)
    set_weights(model, dequantise_weights(quantise_weights(arrays(model))))
    with eight_bits(model.double()):
        difference = np.abs(compared(model, compiled))
    assert np.quantile(difference, 0.9) < 1e-3
    assert difference.max() < 0.1


@each_kind
def test_eight_bits_are_near_fp32(kind: str) -> None:
    model = toy(kind=kind)
    compiled = engine(model, int8=True)
    difference = np.abs(compared(model.double(), compiled))
    assert 0 < difference.mean() < 0.1


@each_kind
def test_a_quantised_checkpoint_is_what_the_engine_quantises_itself(kind: str) -> None:
    model = toy(kind=kind)
    stored = CompiledModel(model.settings, quantise_weights(arrays(model)))
    assert (compared(model, stored) == compared(model, engine(model, int8=True))).all()


@each_kind
def test_a_quantised_checkpoint_can_be_computed_in_fp32(kind: str) -> None:
    model = toy(kind=kind)
    eight = quantise_weights(arrays(model))
    as_fp32 = CompiledModel(model.settings, eight, int8=False)
    set_weights(model, dequantise_weights(eight))
    assert np.abs(compared(model.double(), as_fp32)).max() < 1e-4
