"""Glassformer: the Transformer from scratch, to read like the paper, to trust, and to use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from glassformer.pipeline import Classifier, Generator, Translator, load

__version__ = "0.1.0"

# Where each public name lives. A name is looked up on first use: only those of `model` need torch.
_HOMES = {
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
    "pipeline": ("Classifier", "Generator", "Translator", "load"),
}

__all__ = [
    "Classifier",
    "DecoderLayer",
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
    "build",
    "causal_mask",
    "describe",
    "fused_attention",
    "load",
    "padding_mask",
    "record_attention",
    "scaled_dot_product_attention",
    "target_mask",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            if home.startswith("model."):
                from glassformer.extras import require_torch

                require_torch(f"glassformer.{name}")
            return getattr(import_module(f"glassformer.{home}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
