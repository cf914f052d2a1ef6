"""Choice of the engine of a model: compiled on a CPU; torch on a GPU or on request."""

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from glassformer.checkpoint.format import Checkpoint, types_of
from glassformer.config import own_variants
from glassformer.device import runs_on_cpu
from glassformer.errors import InputError
from glassformer.extras import require_torch
from glassformer.ngrams import PREFIX, WEIGHT, NgramVotes, ngram_shapes
from glassformer.quantize import SCALE, dequantise_weights

if TYPE_CHECKING:
    from glassformer.engine.model import CompiledModel
    from glassformer.pipeline.torch_models import TorchModel

Engine = Literal["auto", "compiled", "torch"]


def inference_model(
    saved: Checkpoint,
    int8: bool | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
    device: str = "cpu",
) -> "CompiledModel | TorchModel":
    """Return the model of a checkpoint, ready for inference; `load` explains the arguments."""
    if engine not in get_args(Engine):
        raise InputError(
            f"There is no engine {engine!r}.",
            f"The engines are {', '.join(get_args(Engine))}; auto is compiled, but for registered "
            "variants.",
            'Leave engine out, or say engine="torch" to reach into the torch model.',
        )
    on_cpu, own = runs_on_cpu(device), own_variants(saved.settings.model)
    if engine == "compiled" and not on_cpu:
        raise InputError(
            f"The compiled engine does not run on the device {device!r}.",
            "It is for CPUs; on other devices the torch model decodes.",
            "Leave engine out, or say device='cpu'.",
        )
    if engine == "compiled" and own:
        raise InputError(
            f"The model has a registered {' and '.join(own)}.",
            "The compiled engine computes the built-in variants only.",
            'Load it with engine="torch", or leave engine out.',
        )
    if engine == "torch" or own or not on_cpu:
        require_torch('engine="torch"')
        from glassformer.pipeline.torch_models import load_torch

        return load_torch(saved, int8, threads, device)
    from glassformer.engine.checks import check_types
    from glassformer.engine.model import CompiledModel

    check_types(saved.settings.model, types_of(saved.weights))
    weights = dequantise_weights(saved.weights) if int8 is False else saved.weights
    return CompiledModel(saved.settings.model, weights, int8=int8, threads=threads)


def ngram_votes(saved: Checkpoint, int8: bool | None = None) -> NgramVotes | None:
    """Return the n-gram member of a classifier's checkpoint, or None if it has none.

    int8     None or True: as the checkpoint is stored. False: in fp32.
    """
    from glassformer.engine.checks import checked

    votes = {name: saved.weights[name] for name in saved.weights if name.startswith(PREFIX)}
    shapes = ngram_shapes(saved.settings.model)
    if not shapes:
        return None
    in_eight_bits = WEIGHT in votes and votes[WEIGHT].dtype == np.int8
    if in_eight_bits:
        shapes[WEIGHT + SCALE] = shapes[WEIGHT][:1]
    for name, shape in shapes.items():
        kind = np.int8 if in_eight_bits and name == WEIGHT else np.float32
        votes[name] = checked(votes, name, shape, kind)
    if int8 is False:
        votes = dequantise_weights(votes)
    return NgramVotes.of(saved.settings.model, votes)


def torch_module(runs: Any) -> Any:
    """Return the torch model that a decoder or classifier wraps; the compiled engine has none."""
    if not has_torch_module(runs):
        raise InputError(
            "The model runs on the compiled engine, which has no torch modules.",
            "Attention maps, gradients and hooks need the torch model.",
            'Load it with engine="torch": load("en-fr", engine="torch").',
        )
    return runs.model


def has_torch_module(runs: object) -> bool:
    """Return whether a decoder or classifier wraps a torch model."""
    return hasattr(runs, "model")
