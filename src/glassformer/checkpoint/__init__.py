"""Checkpoints: their files (`format`), the folder of a run (`run_folder`), torch (`weights`).

Importing this package does not import torch. The names of `weights` are looked up on first use.
"""

from typing import TYPE_CHECKING

from glassformer.checkpoint.format import (
    MANIFEST,
    SETTINGS,
    STATE_TENSORS,
    STATE_VALUES,
    WEIGHTS,
    Checkpoint,
    TrainingState,
    WeightsFile,
    average,
    one_clear_error,
    read,
    write,
)
from glassformer.checkpoint.run_folder import RunFolder, find
from glassformer.checkpoint.sole_writer import sole_writer

if TYPE_CHECKING:
    from glassformer.checkpoint.weights import (
        adopt_weights,
        as_arrays,
        as_tensors,
        check_shapes,
        set_weights,
        stored_names,
        weights_of,
    )

__all__ = [
    "MANIFEST",
    "SETTINGS",
    "STATE_TENSORS",
    "STATE_VALUES",
    "WEIGHTS",
    "Checkpoint",
    "RunFolder",
    "TrainingState",
    "WeightsFile",
    "adopt_weights",
    "as_arrays",
    "as_tensors",
    "average",
    "check_shapes",
    "find",
    "one_clear_error",
    "read",
    "set_weights",
    "sole_writer",
    "stored_names",
    "weights_of",
    "write",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from glassformer.checkpoint import weights

        return getattr(weights, name)
    raise AttributeError(f"module 'glassformer.checkpoint' has no attribute {name!r}")
