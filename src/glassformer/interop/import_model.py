"""Recognise a model of another library and read it as a checkpoint of ours."""

from pathlib import Path

from glassformer.checkpoint.format import Checkpoint, types_of
from glassformer.engine.checks import check_types, check_values
from glassformer.errors import CheckpointError
from glassformer.interop.foreign import refused
from glassformer.interop.gguf_file import MAGIC

FORMATS = "a GGUF file, a llama2.c file, or a folder of Hugging Face, CTranslate2 or Argos"


def read_foreign(source: Path) -> Checkpoint:
    """Return the model at `source`, checked: every tensor has its shape and is finite."""
    if not source.exists():
        raise CheckpointError(
            f"There is no {source}.", f"A model is {FORMATS}.", "Name the file or the folder."
        )
    saved = _read(source)
    check_types(saved.settings.model, types_of(saved.weights))
    for name in saved.weights:
        check_values(name, saved.weights[name])
    return saved


def _read(source: Path) -> Checkpoint:
    if source.is_dir():
        return _read_folder(source)
    with source.open("rb") as file:
        begin = file.read(4)
    if begin == MAGIC or source.suffix == ".gguf":
        from glassformer.interop.read_gguf import import_gguf

        return import_gguf(source)
    if source.suffix == ".bin":
        from glassformer.interop.llama2c import import_llama2c

        return import_llama2c(source, _subwords_of(source))
    raise refused(
        f"{source.name} is of no known format.", f"What is imported is {FORMATS}.", "Name one."
    )


def _read_folder(folder: Path) -> Checkpoint:
    if any((place / "model.bin").is_file() for place in (folder, folder / "model")):
        from glassformer.interop.read_ctranslate2 import import_ctranslate2

        return import_ctranslate2(folder)
    if (folder / "config.json").is_file():
        from glassformer.interop.hugging_face import import_hugging_face

        return import_hugging_face(folder)
    stories = [path for path in folder.glob("*.bin") if not path.name.startswith("tok")]
    files = [*folder.glob("*.gguf"), *stories]
    if len(files) == 1:
        return _read(files[0])
    raise refused(
        f"{folder} holds no model that is known.",
        f"What is imported is {FORMATS}. It has neither config.json nor model.bin.",
        "Name the folder in which the model's files lie.",
    )


def _subwords_of(model: Path) -> Path:
    """Return the file of subwords beside a llama2.c model."""
    found = sorted(model.parent.glob("tok*.bin"))
    if len(found) != 1:
        raise refused(
            f"{len(found)} files beside {model.name} match tok*.bin.",
            "A llama2.c model is imported with its file of subwords.",
            "Put it beside the model, as tok512.bin.",
        )
    return found[0]
