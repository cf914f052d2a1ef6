"""A checkpoint that you can call: text in, text out.

    load("en-fr").translate("Where is the train station?")

`load` returns a `Translator`, `Classifier`, `Generator` or `Embedder`, as the checkpoint is. It
runs on the compiled engine and does not import torch, unless it is loaded with `engine="torch"`.
"""

from glassformer.pipeline.batches import BATCH_TOKENS
from glassformer.pipeline.classifier import Classification, Classifier
from glassformer.pipeline.embedder import Embedder
from glassformer.pipeline.generator import Generator
from glassformer.pipeline.loading import (
    Engine,
    Pipeline,
    inference_model,
    load,
    load_classifier,
    load_embedder,
    load_generator,
    load_translator,
)
from glassformer.pipeline.options import SearchKeywords
from glassformer.pipeline.translator import Translation, Translator

__all__ = [
    "BATCH_TOKENS",
    "Classification",
    "Classifier",
    "Embedder",
    "Engine",
    "Generator",
    "Pipeline",
    "SearchKeywords",
    "Translation",
    "Translator",
    "inference_model",
    "load",
    "load_classifier",
    "load_embedder",
    "load_generator",
    "load_translator",
]
