"""Write a checkpoint in eight bits in one call, and compare it with the original."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer import checkpoint, pretrained
from glassformer.checkpoint import Checkpoint
from glassformer.errors import CheckpointError, InputError, SettingsError
from glassformer.pipeline import Classifier, Embedder, Generator, Pipeline, Translator, load
from glassformer.progress import progress as show_progress
from glassformer.quantize import dequantise_weights, is_quantised, quantise_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from glassformer.evaluate.examples import Data
    from glassformer.evaluate.quantized import Comparison, Trial


@dataclass(frozen=True)
class Quantized:
    """A checkpoint in eight bits: its folder, its size, its error, and how it compares."""

    folder: Path
    bytes_before: int  # of the weights
    bytes_after: int
    error: float  # the largest error of a weight
    error_in: str  # the name of that weight
    largest: float  # the largest magnitude of that weight
    comparison: "Comparison | None" = None

    def load(self, threads: int | None = None) -> Pipeline:
        """Load the quantised model, as `glassformer.load` does."""
        return load(self.folder, threads=threads)

    def __str__(self) -> str:
        share = self.bytes_after / self.bytes_before
        lines = [
            f"written to {self.folder}",
            f"{checkpoint.WEIGHTS}: fp32 {self.bytes_before:,} bytes, INT8 {self.bytes_after:,}, "
            f"{share:.1%} of it",
            f"largest error of a weight: {self.error:.2g}, in {self.error_in}, whose largest is "
            f"{self.largest:.2g}",
        ]
        return "\n".join(lines if self.comparison is None else [*lines, str(self.comparison)])


def quantize(
    model: str | Path,
    output: str | Path | None = None,
    data: "Data | None" = None,
    *,
    split: str = "valid",
    columns: Sequence[str] = (),
    limit: int | None = None,
    skip_bad: bool = False,
    beam_size: int | None = None,
    truncate: bool | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> Quantized:
    """Write the best checkpoint of a run in eight bits; `glassformer quantize`.

    model    folder of a run or checkpoint, or a bundled model.
    output   folder to write. None: `int8` in the run, or beside the checkpoint.
    data     examples, as for `evaluate`, to compare the quantised model with the original on:
             scores, changed outputs, and outputs that depend on the batch. The other arguments
             choose rows and run the models as those of `evaluate` do.
    """
    run = Path(model)
    folder = checkpoint.find(pretrained.resolve(model))
    saved = checkpoint.read(folder)
    place = Path(output) if output else (run.parent if folder == run else run) / "int8"
    _refuse_twice(run, saved)
    _refuse_to_overwrite(place)
    before = load(folder, threads=threads)  # nothing is written that could not be loaded
    trial = None
    if data is not None:
        from glassformer.api.evaluate import read_for
        from glassformer.evaluate.examples import Selection
        from glassformer.evaluate.quantized import Trial

        judged = _judged(before, beam_size)
        select = Selection(split, tuple(columns), limit, skip_bad)
        examples = read_for(judged, data, select, progress=progress)
        cuts = isinstance(judged, Classifier) if truncate is None else truncate
        trial = Trial.of(judged, examples, beam_size or 5, cuts)
    small = Checkpoint(saved.settings, quantise_weights(saved.weights), saved.tokenizers)
    card = place / pretrained.CARD
    text = card.read_bytes() if card.is_file() else None
    checkpoint.write(small, place)
    if text is not None:  # a bundled model is replaced under its card
        card.write_bytes(text)
    sizes = [(one / checkpoint.WEIGHTS).stat().st_size for one in (folder, place)]
    error = _largest_error(saved.weights, small.weights)
    compared = _compared(trial, before, load(place, threads=threads), progress)
    return Quantized(place, sizes[0], sizes[1], *error, compared)


def _refuse_twice(run: Path, saved: Checkpoint) -> None:
    if is_quantised(saved.weights):
        raise CheckpointError(
            f"{run} is quantised already.",
            "It holds the weights in eight bits only, not the original ones.",
            "Use it as it is, or name the run that it was made from.",
        )


def _refuse_to_overwrite(place: Path) -> None:
    """Allow a quantised checkpoint to be replaced; refuse to replace anything else."""
    known = (place / checkpoint.MANIFEST).is_file()
    if place.exists() and not (known and is_quantised(checkpoint.read(place).weights)):
        raise SettingsError(
            f"{place} exists, and is not a quantised checkpoint.",
            "It would be lost.",
            "Name another place: --output FOLDER.",
        )


def _judged(model: Pipeline, beam_size: int | None) -> Translator | Classifier:
    if isinstance(model, Generator | Embedder):
        raise SettingsError(
            f"A {model.settings.model.kind} cannot be compared on examples.",
            "There is no reference to compare its output with.",
            "Quantise it without data.",
        )
    if isinstance(model, Classifier) and beam_size is not None:
        raise InputError(
            "--beam does not go with a classifier.",
            "It does not search for its answer, so it has no beam_size.",
            "Leave it out.",
        )
    return model


def _largest_error(
    weights: "Mapping[str, NDArray[Any]]", small: "Mapping[str, NDArray[Any]]"
) -> tuple[float, str, float]:
    """Return the largest error of a weight, the weight's name, and its largest magnitude."""
    again = dequantise_weights(small)
    errors = {key: float(abs(weights[key] - again[key]).max()) for key in weights}
    key = max(errors, key=errors.__getitem__)
    return errors[key], key, float(abs(weights[key]).max())


def _compared(
    trial: "Trial | None", before: Pipeline, after: Pipeline, progress: bool
) -> "Comparison | None":
    if trial is None:
        return None
    watch = partial(show_progress, shown=progress)
    return trial.compare(_judged(before, None), _judged(after, None), watch)
