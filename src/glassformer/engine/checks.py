"""Checks of weights before compiled code reads them: names, shapes, dtypes and values."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config import ModelSettings
from glassformer.engine.shapes import expected_shapes, has_decoder, has_encoder
from glassformer.errors import CheckpointError
from glassformer.ngrams import PREFIX, ngram_shapes
from glassformer.quantize import SCALE, is_matrix

Tensors = Mapping[str, NDArray[np.generic]]
TensorType = tuple[tuple[int, ...], type[np.generic]]  # shape and dtype, or kind of dtype
LARGEST = 1_000_000  # magnitude of a weight: trained ones stay below 100, and sums do not overflow


def check_types(s: ModelSettings, types: Mapping[str, TensorType]) -> None:
    """Refuse tensors of another model by names, shapes and dtypes, before any of them is read.

    A quantised checkpoint has int8 and a scale for every matrix, and floats for the rest. That of a
    classifier may hold votes of n-grams too.
    """
    layers = s.encoder_layers * has_encoder(s) + s.decoder_layers * has_decoder(s)
    if layers > len(types):  # before the names of so many layers are made
        raise CheckpointError(
            f"The settings ask for {layers:,} layers, and the weights have {len(types):,} tensors.",
            "Each layer has several tensors.",
            "Load a checkpoint with the settings that lie in its folder.",
        )
    shapes = expected_shapes(s) | ngram_shapes(s)
    expected: dict[str, TensorType] = {n: (shape, np.floating) for n, shape in shapes.items()}
    if any(name.endswith(SCALE) for name in types):
        for name in (n for n, shape in shapes.items() if is_matrix(n, shape)):
            expected[name] = shapes[name], np.int8
            expected[name + SCALE] = shapes[name][:1], np.floating
    for name in sorted(expected.keys() | types.keys()):
        wanted, given = expected.get(name), types.get(name)
        same = wanted and given and wanted[0] == given[0] and np.issubdtype(given[1], wanted[1])
        if not same:
            raise CheckpointError(
                f"The weights are of another model: {name} is {_described(given, 'absent')}.",
                f"The settings ask for {_described(wanted, 'no such tensor')}.",
                "Load a checkpoint with the settings that lie in its folder.",
            )


def _described(kind: TensorType | None, none: str) -> str:
    return f"{kind[0]} of {kind[1].__name__}" if kind else none


def check_names(s: ModelSettings, tensors: Iterable[str]) -> None:
    """Refuse weights of another model: a tensor that is missing, or that the settings lack."""
    wanted = set(expected_shapes(s))
    given = {n for n in tensors if not (n.endswith(SCALE) or n.startswith(PREFIX))}
    if wanted != given:
        name = min(wanted ^ given)
        raise CheckpointError(
            f"The weights are of another model: {name} is {'absent' if name in wanted else 'new'}.",
            f"The settings ask for {'this' if name in wanted else 'no such'} tensor.",
            "Load a checkpoint with the settings that lie in its folder.",
        )


def checked(
    tensors: Tensors, name: str, shape: tuple[int, ...], kind: type = np.float32
) -> NDArray[Any]:
    """Return a tensor, if it is there, of this shape, and finite."""
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape:
        raise CheckpointError(
            f"The weights are of another model: {name} is "
            f"{'absent' if tensor is None else tensor.shape}.",
            f"The settings ask for {shape}.",
            "Load a checkpoint with the settings that lie in its folder.",
        )
    check_values(name, tensor)
    return tensor if kind is np.int8 else tensor.astype(np.float32, copy=False)


def check_values(name: str, tensor: NDArray[Any]) -> None:
    """Refuse weights that no training and no quantisation makes."""
    tensor = np.asarray(tensor)
    with np.errstate(over="ignore"):  # float64 beyond float32 becomes infinity, and is refused
        values = tensor.astype(np.float32, copy=False)
    if tensor.dtype == np.int8:
        wrong = "-128, and eight bits are read from -127 to 127" if (tensor == -128).any() else ""
    elif not np.isfinite(values).all():
        wrong = "NaN or infinity"
    elif np.abs(values).max(initial=0) > LARGEST:
        wrong = f"a value beyond {LARGEST:,}"
    else:
        wrong = "a scale of 0 or less" if name.endswith(SCALE) and (tensor <= 0).any() else ""
    if wrong:
        raise CheckpointError(
            f"{name} holds {wrong}.",
            "Every answer would be garbage.",
            "Use an earlier checkpoint of the run.",
        )
