"""The shapes that the settings ask for are those of the torch model, in every variant."""

from typing import Any

import numpy as np
import pytest

from glassformer.checkpoint import as_arrays, weights_of
from glassformer.config import ModelSettings
from glassformer.engine.checks import check_types
from glassformer.engine.shapes import expected_shapes
from glassformer.model.build import build
from glassformer.ngrams import ngram_shapes
from glassformer.quantize import quantise_weights

SIZES = {"vocab_size": 19, "d_model": 16, "n_heads": 4, "d_ff": 24, "encoder_layers": 2}
KINDS: list[dict[str, Any]] = [
    {"kind": "translator"},
    {"kind": "translator", "tie_source_target": False, "source_vocab_size": 21},
    {"kind": "translator", "tie_target_output": False},
    {"kind": "language-model"},
    {"kind": "masked-language-model"},
    {"kind": "classifier", "ngrams": 2, "ngram_places": 20},
    {"kind": "tagger"},
]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"positions": "learned", "max_positions": 17, "residual": "post-norm"},
    {"positions": "relative", "norm": "rms-norm"},
    {"positions": "relative", "max_distance": 5, "feed_forward_bias": False},
    {"positions": "relative-bucketed", "feed_forward": "swiglu"},
    {"positions": "rope", "n_kv_heads": 2, "attention_bias": True},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_expected_shapes_are_those_of_the_model_in_fp32_and_in_eight_bits(
    kind: dict[str, Any], variant: dict[str, Any]
) -> None:
    settings = ModelSettings(**SIZES, **kind, **variant)
    weights: Any = as_arrays(weights_of(build(settings)))
    assert expected_shapes(settings) == {name: w.shape for name, w in weights.items()}
    weights |= {name: np.ones(shape, np.float32) for name, shape in ngram_shapes(settings).items()}
    for stored in (weights, quantise_weights(weights)):
        check_types(settings, {n: (np.shape(w), w.dtype.type) for n, w in stored.items()})
