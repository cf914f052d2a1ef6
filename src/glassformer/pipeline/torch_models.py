"""Models of checkpoints in torch: for hooks, attention maps, gradients. Imports torch."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.checkpoint.format import Checkpoint, types_of
from glassformer.checkpoint.weights import set_weights
from glassformer.config import own_variants
from glassformer.data.batch import pad
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.device import resolve
from glassformer.engine.checks import check_types, check_values
from glassformer.errors import CheckpointError
from glassformer.model.build import Model, build
from glassformer.model.classifier import TransformerClassifier, TransformerEmbedder
from glassformer.model.transformer import LanguageModel, Transformer
from glassformer.ngrams import without_votes
from glassformer.quantize import dequantise_weights, is_quantised, quantise_weights


class TorchClassifier:
    """A torch classifier with the interface of the compiled one."""

    def __init__(self, model: TransformerClassifier) -> None:
        self.model = model.eval()

    @torch.inference_mode()
    def classify(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the logits of each row of ids, (B, C)."""
        ids = pad(rows, self.model.pad_id).to(self.model.output.weight.device)
        logits: NDArray[np.float32] = self.model(ids).cpu().numpy()
        return logits


class TorchEmbedder:
    """A torch embedder with the interface of the compiled one."""

    def __init__(self, model: TransformerEmbedder) -> None:
        self.model = model.eval()

    @torch.inference_mode()
    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vector of each row of ids, (B, D)."""
        vectors: NDArray[np.float32] = self.model(pad(rows, self.model.pad_id)).numpy()
        return vectors


TorchModel = TorchDecoder | TorchClassifier | TorchEmbedder


def load_torch(
    saved: Checkpoint,
    int8: bool | None = None,
    threads: int | None = None,
    device: str = "cpu",
) -> TorchModel:
    """Return the torch model of a checkpoint on a device, as a decoder or a classifier.

    torch has one number of threads for the whole process: `threads` sets that one.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    model = torch_model(saved, int8).to(resolve(device))
    if isinstance(model, Transformer | LanguageModel):
        return TorchDecoder(model)
    if isinstance(model, TransformerClassifier):
        return TorchClassifier(model)
    if isinstance(model, TransformerEmbedder):
        return TorchEmbedder(model)
    raise CheckpointError(
        f"The checkpoint holds a {saved.settings.model.kind}.",
        "Translators, classifiers, embedders and language models can be called; not this one.",
        "Build it and set its weights: torch_model(checkpoint).",
    )


def torch_model(saved: Checkpoint, int8: bool | None = None) -> Model:
    """Return the model of a checkpoint in fp32, without dropout and without gradients.

    Weights in eight bits are dequantised. With `int8`, fp32 weights are rounded to eight bits and
    back, so that they have the values that the compiled engine uses.
    """
    weights = saved.weights
    if not own_variants(saved.settings.model):  # whose tensors only the built model knows
        check_types(saved.settings.model, types_of(weights))
    for name in weights:
        check_values(name, weights[name])
    if int8 and not is_quantised(weights):
        weights = quantise_weights(weights)
    model = build(saved.settings.model)
    set_weights(model, without_votes(dequantise_weights(weights)))
    return model.eval().requires_grad_(False)
