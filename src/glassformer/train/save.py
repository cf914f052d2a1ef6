"""Write a run's checkpoints: the weights for inference and the state to resume from."""

from contextlib import suppress
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoint import Checkpoint, as_arrays, weights_of
from glassformer.errors import TrainingError
from glassformer.train.distributed import whole
from glassformer.train.run import Run
from glassformer.train.state import capture


def inference_weights(run: Run) -> dict[str, Tensor]:
    """Return the weights of a checkpoint, averaged with train.ema. Every process must call it."""
    averaged = run.average.weights if run.average is not None else {}
    return {n: whole(averaged.get(n, w)).clone() for n, w in weights_of(run.model).items()}


def stored(run: Run, weights: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a checkpoint: the weights, and the n-gram votes of a classifier."""
    return as_arrays(weights) | (run.votes.arrays() if run.votes is not None else {})


def save(run: Run, weights: dict[str, Tensor], is_best: bool) -> None:
    """Write a checkpoint to resume from, and mark it as the best one if it is."""
    step, keep = run.position.step, run.settings.train.keep
    state = capture(run.model, run.optimizers, run.position, run.stopping, run.average, run.scaler)
    saved = Checkpoint(run.settings, stored(run, weights), run.data.tokenizers, state)
    run.world.lead(lambda: run.folder.save(saved, step, is_best, keep))


def keep_good_weights(run: Run) -> None:
    """Save the weights before a failed update; a resumed run continues after its batch.

    Weights that are not finite are not saved: the error of the update is the one to report.
    """
    with suppress(TrainingError):
        save(run, inference_weights(run), is_best=False)
