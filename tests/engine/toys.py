"""Tiny models with random weights for the tests of the engine, and questions for them.

No width is a multiple of a vector: heads of 10, a feed-forward network of 33, 70 tokens.
All models share the same compiled code, so only the first call of a session compiles.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.checkpoint.weights import as_arrays, weights_of
from glassformer.config import ModelSettings
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.options import Hypothesis, SearchOptions
from glassformer.decode.search import search
from glassformer.engine.model import CompiledModel
from glassformer.model.build import build

VOCABULARY = 70
ODD = ModelSettings(
    vocab_size=VOCABULARY,
    d_model=20,
    n_heads=2,
    d_ff=33,
    encoder_layers=1,
    decoder_layers=2,
    max_positions=40,
    dropout=0.0,
    n_classes=3,
    tie_target_output=False,  # tied, a random model mostly copies its input
)


def toy(settings: ModelSettings = ODD, **changes: Any) -> Any:
    """A torch model in which every weight, gains and biases too, matters; it has `settings`."""
    settings = settings.replace(**changes)
    model = build(settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.4)
    model.settings = settings
    return model


def arrays(model: Any) -> dict[str, NDArray[Any]]:
    """The weights of a model as a checkpoint has them."""
    return {name: np.array(array) for name, array in as_arrays(weights_of(model)).items()}


def engine(model: Any, **options: Any) -> CompiledModel:
    return CompiledModel(model.settings, arrays(model), **options)


def sentences(*lengths: int, seed: int = 0, size: int = VOCABULARY) -> list[list[int]]:
    """Random ids with an end mark, so many of them without it."""
    random = np.random.default_rng(seed)
    return [[*random.integers(EOS + 1, size, n).tolist(), EOS] for n in lengths]


def answers(
    model: CompiledModel, sources: Sequence[Sequence[int]] | None, **options: Any
) -> list[list[Hypothesis]]:
    prefixes = options.pop("prefixes", None)
    options = {"max_length": 12, **options}
    return search(model, sources, BOS, EOS, SearchOptions(**options), prefixes)
