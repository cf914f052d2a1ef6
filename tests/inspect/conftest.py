"""Untrained models with weights so large that their outputs vary."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.config import RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.model.build import build
from glassformer.pipeline import Classifier, Generator, Translator
from glassformer.pipeline.torch_models import TorchClassifier

TEXTS = ["a dog", "the old cat sees a dog.", "two children, who want some tea", "l'un voit le thé"]
TOKENIZERS = {
    "joint": Tokenizer.train(TEXTS * 5, 60),
    "source": Tokenizer.train(TEXTS[:3] * 5, 45),
    "target": Tokenizer.train(TEXTS[2:] * 5, 48),
}
LABELS = ("sad", "glad", "neither")
CALLED = {"translator": Translator, "classifier": Classifier, "language-model": Generator}
LONGEST = 30


def build_untrained(
    kind: str = "translator", sides: tuple[str, ...] = ("joint",), **changes: Any
) -> Any:
    """Return a function that builds an untrained pipeline of two layers with two heads."""
    sizes = {
        "d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 2, "decoder_layers": 2,
        "tie_target_output": False, "vocab_size": len(TOKENIZERS[sides[-1]]), "n_classes": 3,
    }  # fmt: skip
    if len(sides) == 2:
        sizes |= {"source_vocab_size": len(TOKENIZERS["source"]), "tie_source_target": False}
    labels = LABELS if kind == "classifier" else ()
    settings = RunSettings.of(
        model={"kind": kind, **sizes, **changes}, data={"max_length": LONGEST, "labels": labels}
    )
    torch.manual_seed(1)
    model = build(settings.model).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.5)
    runs = TorchClassifier(model) if kind == "classifier" else TorchDecoder(model)
    return CALLED[kind](runs, {one: TOKENIZERS[one] for one in sides}, settings)


@pytest.fixture
def untrained() -> Callable[..., Any]:
    """By a fixture, as a folder of the name `inspect` cannot be imported from."""
    return build_untrained


@pytest.fixture
def texts() -> list[str]:
    return TEXTS
