"""The files of a checkpoint, which is a folder. Read and written with numpy, without torch.

    model.safetensors   settings.toml   *.spm   [training.safetensors, training.json]
    manifest.json       SHA-256 of every other file, written last

A checkpoint is written beside its target, flushed to the disk, then renamed: it exists whole or
not at all. Nothing here unpickles. A stranger may have written the files and their hashes: one that
makes no sense is a CheckpointError, and sizes are compared before memory is taken.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from reprlib import Repr
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from glassformer.config import RunSettings, check_together
from glassformer.data.foreign_tokenizer import read_tokenizer
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import CheckpointError, GlassformerError, UnknownVariantError

WEIGHTS, SETTINGS, MANIFEST = "model.safetensors", "settings.toml", "manifest.json"
STATE_TENSORS, STATE_VALUES = "training.safetensors", "training.json"
SUBWORDS, FOREIGN_SUBWORDS = ".spm", ".json"
SIDES = "joint", "source", "target"
PARTIAL = ".partial-"  # prefix of a folder that is being written
# Bytes that a file may have, by its name in a manifest; weights as many as the disk holds.
MAX_BYTES = {
    **{WEIGHTS: sys.maxsize, STATE_TENSORS: sys.maxsize},
    **{MANIFEST: 1 << 16, SETTINGS: 1 << 20, STATE_VALUES: 1 << 26},
    **{side + kind: 1 << 26 for side in SIDES for kind in (SUBWORDS, FOREIGN_SUBWORDS)},
}
DTYPES: dict[str, type[np.generic]] = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BOOL": np.bool_, "U8": np.uint8},
    **{"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8},
}

SHORT = Repr()  # of words that a stranger may have written
SHORT.maxstring = 300  # characters

Weights = Mapping[str, NDArray[Any]]


TOKENIZERS = {SUBWORDS: Tokenizer, FOREIGN_SUBWORDS: read_tokenizer}


@dataclass(frozen=True)
class TrainingState:
    """State that a run needs to resume, besides the weights."""

    tensors: Mapping[str, Any]  # torch tensors while it is being written, arrays after `read`
    values: dict[str, Any]  # what JSON can hold


class WeightsFile(Mapping[str, NDArray[Any]]):
    """Tensors of a safetensors file by name, each read when it is asked for and not kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _understood(path), safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            self.types = {
                name: (tuple(one.get_shape()), _dtype(one.get_dtype()))
                for name, one in slices.items()
            }

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.types:
            raise KeyError(name)
        with _understood(self.path), safe_open(self.path, "np") as file:
            array: NDArray[Any] = file.get_tensor(name)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)


def _dtype(stored: str) -> type[np.generic]:
    if stored not in DTYPES:
        raise ValueError(f"a tensor is of {stored}, not of {', '.join(DTYPES)}")
    return DTYPES[stored]


def types_of(weights: Weights) -> dict[str, tuple[tuple[int, ...], type[np.generic]]]:
    """Return shape and dtype of each tensor; of a file, without reading the tensors."""
    if isinstance(weights, WeightsFile):
        return weights.types
    arrays = {name: np.asarray(weights[name]) for name in weights}
    return {name: (array.shape, array.dtype.type) for name, array in arrays.items()}


@dataclass(frozen=True)
class Checkpoint:
    """Settings, weights and tokenizers of a model; during training also the state of its run."""

    settings: RunSettings
    weights: Weights
    tokenizers: dict[str, Tokenizer] = field(default_factory=dict)  # by side; empty for a task
    training: TrainingState | None = None

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of each file."""
        yield WEIGHTS, _saved(self.weights)
        yield SETTINGS, self.settings.to_toml().encode()
        for side, tokenizer in self.tokenizers.items():
            yield side + tokenizer.file_type, tokenizer.model
        if self.training is not None:
            yield STATE_TENSORS, _saved(self.training.tensors)
            yield STATE_VALUES, json.dumps(self.training.values, indent=2).encode()


def _saved(tensors: Mapping[str, Any]) -> bytes:
    """Return the bytes of a safetensors file. Torch tensors on the CPU are arrays too."""
    return save({name: np.asarray(tensor) for name, tensor in tensors.items()})


@contextmanager
def one_clear_error(what: str) -> Iterator[None]:
    """Turn an error of the disk into a CheckpointError that says what to do."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{what} could not be written: {error.strerror}.",
            "Nothing of it was kept; the checkpoints before it are whole.",
            "Free some space or correct the permissions, then continue with --resume.",
        ) from error


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint to `folder`. It replaces a checkpoint that is there."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not is_whole(folder)):
        raise CheckpointError(
            f"{folder} is there already, and is no checkpoint.",
            "A checkpoint takes the place of what is there, and this would be lost.",
            "Name another place.",
        )
    partial = folder.with_name(f"{PARTIAL}{folder.name}-{os.getpid()}")
    with one_clear_error(f"The checkpoint {folder.name}"):
        try:
            partial.mkdir(parents=True)
            digests: dict[str, str] = {}
            for name, content in checkpoint.files():
                _write_flushed(partial / name, content)
                digests[name] = sha256(content).hexdigest()
            _write_flushed(partial / MANIFEST, json.dumps(digests, indent=2).encode())
            _flush_folder(partial)
            old = folder.with_name(f"{PARTIAL}{folder.name}-old")
            if folder.exists():  # two renames in a row: hardly a moment without either
                shutil.rmtree(old, ignore_errors=True)  # left by a process killed between them
                folder.rename(old)
            partial.rename(folder)
            _flush_folder(folder.parent)
            shutil.rmtree(old, ignore_errors=True)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def replace_text(path: Path, content: str) -> None:
    """Write a text file atomically: a crash leaves the old file or the new one."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(content, "utf-8")
    partial.replace(path)


def is_whole(folder: Path) -> bool:
    """Return whether `folder` is a complete checkpoint: its manifest is written last."""
    return (folder / MANIFEST).is_file()


def remove(folder: Path) -> None:
    """Delete a checkpoint. It is renamed first: half a checkpoint must not look like one."""
    shutil.rmtree(folder.rename(folder.with_name(f"{PARTIAL}{folder.name}-old")))


def read(folder: Path, training: bool = False) -> Checkpoint:
    """Read a checkpoint and check every byte; with `training`, also the state of its run.

    Each weight is read from its file when it is asked for, and is a new array each time.
    """
    contents = _verified(folder, training)
    tokenizers = {}
    for side, kind in ((side, kind) for side in SIDES for kind in TOKENIZERS):
        if (name := side + kind) in contents:
            with _understood(folder / name):
                tokenizers[side] = TOKENIZERS[kind](contents[name])
    with _understood(folder / SETTINGS):
        settings = RunSettings.from_toml(contents[SETTINGS])
        check_together(settings.model)
    state = _training_state(folder, contents) if training and STATE_TENSORS in contents else None
    return Checkpoint(settings, WeightsFile(folder / WEIGHTS), tokenizers, state)


def _training_state(folder: Path, contents: Mapping[str, bytes]) -> TrainingState:
    with _understood(folder / STATE_VALUES):
        values = json.loads(contents.get(STATE_VALUES, b"null"))
        if not isinstance(values, dict):
            raise ValueError("it is not a table of values")
    with _understood(folder / STATE_TENSORS):
        return TrainingState(load(contents[STATE_TENSORS]), values)


def average(checkpoints: Sequence[Path]) -> dict[str, NDArray[np.float32]]:
    """Return the mean of the weights of several checkpoints of one run (§6.1)."""
    total: dict[str, NDArray[np.float64]] = {}
    for folder in checkpoints:
        for name, array in read(folder).weights.items():
            if not np.issubdtype(array.dtype, np.floating):
                raise CheckpointError(
                    f"{folder.name} is quantised, and cannot be averaged.",
                    "Its integers mean something with their own scales only.",
                    "Average the checkpoints that it was made from, then quantise the average.",
                )
            exact = array.astype(np.float64)
            if total.get(name, exact).shape != exact.shape:
                raise CheckpointError(
                    f"{folder.name} is of another model: {name} is {exact.shape}.",
                    f"In a checkpoint before it, {name} is {total[name].shape}.",
                    "Average checkpoints of one run.",
                )
            total[name] = total[name] + exact if name in total else exact
    return {name: (array / len(checkpoints)).astype(np.float32) for name, array in total.items()}


def _verified(folder: Path, training: bool) -> dict[str, bytes]:
    """Return the content of the files after checking their hashes; not of the weights."""
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint.",
            f"It has no {MANIFEST}, which every complete checkpoint has.",
            "Name the folder of a run, or one of the step-… folders in it.",
        )
    contents: dict[str, bytes] = {}
    for name, digest in _manifest(path).items():
        if not training and name in (STATE_TENSORS, STATE_VALUES):
            continue
        file = folder / name
        if not file.is_file() or file.stat().st_size > MAX_BYTES[name]:
            raise _damaged(file)
        with _understood(file):
            _refuse_link(file)
            if name == WEIGHTS:  # read tensor by tensor: the file may be large
                same = _sha256_of(file) == digest
            else:
                contents[name] = file.read_bytes()
                same = sha256(contents[name]).hexdigest() == digest
        if not same:
            raise _damaged(file)
    return contents


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _manifest(path: Path) -> dict[str, str]:
    if path.stat().st_size > MAX_BYTES[MANIFEST]:
        raise _damaged(path)
    with _understood(path):
        _refuse_link(path)
        digests = json.loads(path.read_bytes())
        if not isinstance(digests, dict) or not {WEIGHTS, SETTINGS} <= digests.keys():
            raise ValueError(f"it does not name {WEIGHTS} and {SETTINGS}")
        if others := digests.keys() - MAX_BYTES.keys() | digests.keys() & {MANIFEST}:
            raise ValueError(f"it names {SHORT.repr(min(others))}, which no checkpoint has")
    return digests


def _refuse_link(path: Path) -> None:
    if path.resolve().parent != path.parent.resolve():
        raise ValueError("it is a link to a file outside of the folder")


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn errors of what reads a file into one that names the file."""
    try:
        yield
    except UnknownVariantError as error:
        raise CheckpointError(
            f"The checkpoint {path.parent.name} has a variant that is not registered: {error.what}",
            f"It was trained with a variant of the user's own, or {path.name} is damaged.",
            error.remedy,
        ) from None
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        reason = error.what if isinstance(error, GlassformerError) else str(error)
        raise _damaged(path, f"It cannot be used: {SHORT.repr(reason)[1:-1]}.") from None


def _damaged(path: Path, why: str = "") -> CheckpointError:
    size = path.stat().st_size if path.is_file() else 0
    return CheckpointError(
        f"The checkpoint {path.parent.name} is damaged: {path.name}.",
        why or f"Its {size:,} bytes are not those that were written.",
        "Use another checkpoint of the run, or copy this one again from its origin.",
    )


def _write_flushed(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
