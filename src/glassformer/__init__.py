"""Glassformer: the Transformer from scratch, to read like the paper, to trust, and to use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.api import bench
    from glassformer.api.ablate import ablate
    from glassformer.api.align import align
    from glassformer.api.average import average
    from glassformer.api.evaluate import evaluate, evaluate_behaviour, evaluate_sets
    from glassformer.api.export_model import export
    from glassformer.api.import_model import import_model
    from glassformer.api.inspect import inspect, inspect_heads
    from glassformer.api.lab import lab
    from glassformer.api.profile import profile
    from glassformer.api.quantize import quantize
    from glassformer.api.train import train
    from glassformer.model.attention import (
        MultiHeadAttention,
        fused_attention,
        record_attention,
        scaled_dot_product_attention,
    )
    from glassformer.model.build import build
    from glassformer.model.classifier import TransformerClassifier, TransformerTagger
    from glassformer.model.decoder import DecoderLayer, TransformerDecoder
    from glassformer.model.describe import describe
    from glassformer.model.encoder import EncoderLayer, TransformerEncoder
    from glassformer.model.feed_forward import FeedForward
    from glassformer.model.masks import causal_mask, padding_mask, target_mask
    from glassformer.model.norm import LayerNorm, RMSNorm
    from glassformer.model.positions import PositionalEncoding
    from glassformer.model.transformer import LanguageModel, Transformer
    from glassformer.pipeline import Classifier, Embedder, Generator, Translator, load
    from glassformer.registry import register
    from glassformer.serve.run import serve

__version__ = "0.1.0"

# Where each public name lives. A name is looked up on first use: only those of `model` need torch.
_HOMES = {
    "api.ablate": ("ablate",),
    "api.align": ("align",),
    "api.average": ("average",),
    "api.evaluate": ("evaluate", "evaluate_behaviour", "evaluate_sets"),
    "api.export_model": ("export",),
    "api.import_model": ("import_model",),
    "api.inspect": ("inspect", "inspect_heads"),
    "api.lab": ("lab",),
    "api.profile": ("profile",),
    "api.quantize": ("quantize",),
    "api.train": ("train",),
    "model.attention": (
        "MultiHeadAttention",
        "fused_attention",
        "record_attention",
        "scaled_dot_product_attention",
    ),
    "model.build": ("build",),
    "model.classifier": ("TransformerClassifier", "TransformerTagger"),
    "model.decoder": ("DecoderLayer", "TransformerDecoder"),
    "model.describe": ("describe",),
    "model.encoder": ("EncoderLayer", "TransformerEncoder"),
    "model.feed_forward": ("FeedForward",),
    "model.masks": ("causal_mask", "padding_mask", "target_mask"),
    "model.norm": ("LayerNorm", "RMSNorm"),
    "model.positions": ("PositionalEncoding",),
    "model.transformer": ("LanguageModel", "Transformer"),
    "pipeline": ("Classifier", "Embedder", "Generator", "Translator", "load"),
    "registry": ("register",),
    "serve.run": ("serve",),
}

# Functions that share their name with a package or module, which can be called in their place.
_CALLABLE_MODULES = ("evaluate", "inspect", "lab", "quantize", "serve", "train")
_PACKAGES = (*_CALLABLE_MODULES, "bench")  # `bench` has a function for each measurement

__all__ = [
    "Classifier",
    "DecoderLayer",
    "Embedder",
    "EncoderLayer",
    "FeedForward",
    "Generator",
    "LanguageModel",
    "LayerNorm",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RMSNorm",
    "Transformer",
    "TransformerClassifier",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerTagger",
    "Translator",
    "ablate",
    "align",
    "average",
    "bench",
    "build",
    "causal_mask",
    "describe",
    "evaluate",
    "evaluate_behaviour",
    "evaluate_sets",
    "export",
    "fused_attention",
    "import_model",
    "inspect",
    "inspect_heads",
    "lab",
    "load",
    "padding_mask",
    "profile",
    "quantize",
    "record_attention",
    "register",
    "scaled_dot_product_attention",
    "serve",
    "target_mask",
    "train",
]


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"glassformer.{name}")
    for home, names in _HOMES.items():
        if name in names:
            if home.startswith("model."):
                from glassformer.extras import require_torch

                require_torch(f"glassformer.{name}")
            return getattr(import_module(f"glassformer.{home}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
