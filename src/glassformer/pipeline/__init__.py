"""A checkpoint that you can call: text in, text out.

    load("en-fr").translate("Where is the train station?")

`load` returns a `Translator`, a `Classifier` or a `Generator`, whichever the checkpoint holds. It
runs on the compiled engine and does not import torch, unless `engine="torch"` asks for it.
"""

from glassformer.pipeline.batches import BATCH_TOKENS
from glassformer.pipeline.classifier import Classification, Classifier
from glassformer.pipeline.generator import Generator
from glassformer.pipeline.loading import (
    Engine,
    Pipeline,
    inference_model,
    load,
    load_classifier,
    load_generator,
    load_translator,
)
from glassformer.pipeline.options import SearchKeywords
from glassformer.pipeline.translator import Translation, Translator

__all__ = [
    "BATCH_TOKENS",
    "Classification",
    "Classifier",
    "Engine",
    "Generator",
    "Pipeline",
    "SearchKeywords",
    "Translation",
    "Translator",
    "inference_model",
    "load",
    "load_classifier",
    "load_generator",
    "load_translator",
]
