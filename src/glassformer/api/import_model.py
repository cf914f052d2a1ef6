"""Import a model of another library in one call."""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from glassformer import checkpoint, pretrained
from glassformer.checkpoint import Checkpoint
from glassformer.checkpoint.format import types_of
from glassformer.errors import InputError
from glassformer.pipeline import Pipeline, load
from glassformer.quantize import is_quantised, quantise_weights


@dataclass(frozen=True)
class Imported:
    """An imported model: its name, its folder and its size."""

    name: str
    folder: Path
    kind: str
    parameters: int

    def load(self, threads: int | None = None) -> Pipeline:
        """Load the model, as `glassformer.load` does."""
        return load(self.folder, threads=threads)

    def __str__(self) -> str:
        call = CALLS.get(self.kind, "")
        return (
            f"{self.name}: {self.kind}, {self.parameters:,} parameters\n"
            f"written to {self.folder}\n"
            f'use it: glassformer.load("{self.name}"){call}'
        )


CALLS = {
    "embedder": ".embed(texts)",
    "translator": ".translate(texts)",
    "language-model": ".generate(prompt)",
}


def import_model(
    source: str | Path,
    name: str | None = None,
    output: str | Path | None = None,
    *,
    int8: bool = False,
) -> Imported:
    """Write a model of another library as a checkpoint; `glassformer import`.

    source   a GGUF or llama2.c file, or a folder of Hugging Face, CTranslate2 or Argos.
    name     its name for `glassformer.load`. None: the name of the source.
    output   the folder to write. None: one of that name in the user's cache.
    int8     round the weights to eight bits.
    """
    from glassformer.interop.import_model import read_foreign

    path = Path(source).resolve()
    name = name or (path.stem if path.is_file() else path.name)
    if name != Path(name).name or name in (".", "..", ""):
        raise InputError(
            f"{name!r} is no name for a model.",
            "It names a folder in the user's cache.",
            "Use letters, digits and hyphens, or say where: --output FOLDER.",
        )
    if output is None and name in pretrained.names():
        raise InputError(
            f"{name!r} is the name of a bundled model.",
            "The imported model would hide the bundled one.",
            "Give another name: --as NAME.",
        )
    saved = read_foreign(path)
    if int8 and not is_quantised(saved.weights):
        saved = Checkpoint(saved.settings, quantise_weights(saved.weights), saved.tokenizers)
    folder = Path(output) if output is not None else pretrained.imported() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write(saved, folder)
    sizes = [prod(shape) for n, (shape, _) in types_of(saved.weights).items() if n[-6:] != ".scale"]
    shown = name if output is None else str(folder)
    return Imported(shown, folder, saved.settings.model.kind, sum(sizes))
