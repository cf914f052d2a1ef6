"""A checkpoint is a folder: weights, settings, subwords, and what a run needs to go on.

    model.safetensors   settings.toml   *.spm   [training.safetensors, training.json]
    manifest.json       the SHA-256 of every other file, written last

It is written beside its target, flushed to the disk, then renamed: it exists whole or not at all.
Nothing here unpickles.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from glassformer.config import RunSettings
from glassformer.data.download import sha256_of
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import CheckpointError

WEIGHTS, SETTINGS, MANIFEST = "model.safetensors", "settings.toml", "manifest.json"
STATE_TENSORS, STATE_VALUES = "training.safetensors", "training.json"
SUBWORDS = ".spm"
PARTIAL = ".partial-"


@dataclass(frozen=True)
class TrainingState:
    """What a run needs besides the weights: tensors by name, and plain values."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


class WeightsFile(Mapping[str, Tensor]):
    """Tensors of a file by name, each mapped when it is asked for: none is kept here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with safe_open(path, "pt") as file:
            self.names = tuple(file.keys())

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.names:
            raise KeyError(name)
        with safe_open(self.path, "pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Checkpoint:
    settings: RunSettings
    weights: Mapping[str, Tensor]
    tokenizers: dict[str, Tokenizer] = field(default_factory=dict)  # by side; empty for a task
    training: TrainingState | None = None

    def files(self) -> Iterator[tuple[str, bytes]]:
        yield WEIGHTS, save(dict(self.weights))
        yield SETTINGS, self.settings.to_toml().encode()
        for side, tokenizer in self.tokenizers.items():
            yield side + SUBWORDS, tokenizer.model
        if self.training is not None:
            yield STATE_TENSORS, save(self.training.tensors)
            yield STATE_VALUES, json.dumps(self.training.values, indent=2).encode()


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and kept buffer once, a tied one under its first name."""
    kept, names = model.state_dict(keep_vars=True), set(stored_names(model).values())
    return {name: tensor.detach() for name, tensor in kept.items() if name in names}


def stored_names(model: nn.Module) -> dict[str, str]:
    """Under which name `weights_of` has each parameter: its own, or the first of its twins."""
    kept = model.state_dict(keep_vars=True)
    first = {id(tensor): name for name, tensor in reversed(kept.items())}
    return {name: first[id(tensor)] for name, tensor in kept.items()}


def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put `weights_of` a like model into this one."""
    check_shapes(model, {name: tuple(weights[name].shape) for name in weights})
    # Not strict: what is tied is missing, and set by its twin.
    model.load_state_dict(dict(weights), strict=False)


def adopt_weights(
    model: nn.Module, weights: Mapping[str, Tensor], same_answers: bool = True
) -> None:
    """Put in the stacks that this model and another have in common, each whole: an encoder, say.

    An output over other answers than the new model's is left where it is.
    """
    own = weights_of(model)
    stacks = _stacks(own) & _stacks(weights) or _stacks(own)
    mine, theirs = (
        {name: tuple(w[name].shape) for name in w if name.partition(".")[0] in stacks}
        for w in (own, weights)
    )
    if mine != theirs:
        name = next(n for n in mine | theirs if mine.get(n) != theirs.get(n))
        raise CheckpointError(
            f"The run cannot begin with those weights: {name} is {theirs.get(name, 'absent')} "
            "there.",
            f"In the new model it is {mine.get(name, 'absent')}.",
            "Give [model] of both recipes the same shape, or leave train.start_from out.",
        )
    for name, tensor in own.items():
        wanted = same_answers or not name.startswith("output.")
        if wanted and name in weights and weights[name].shape == tensor.shape:
            tensor.copy_(weights[name])


def _stacks(names: Iterable[str]) -> set[str]:
    """What is trained apart from the answers; the votes of n-grams are counted anew."""
    return {name.partition(".")[0] for name in names} - {"output", "votes"}


def check_shapes(model: nn.Module, given: dict[str, tuple[int, ...]]) -> None:
    """Refuse the weights of another model."""
    expected = {name: tuple(tensor.shape) for name, tensor in weights_of(model).items()}
    if expected != given:
        name = min(n for n in expected | given if expected.get(n) != given.get(n))
        raise CheckpointError(
            f"The weights are of another model: {name} is {given.get(name, 'absent')}.",
            f"This model has {expected.get(name, 'no such tensor')} there.",
            "Load a checkpoint with the settings that lie in its folder.",
        )


@contextmanager
def one_clear_error(what: str) -> Iterator[None]:
    """What the disk says, as something to act on."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{what} could not be written: {error.strerror}.",
            "Nothing of it was kept; the checkpoints before it are whole.",
            "Make room or mend the permissions, then go on with --resume.",
        ) from error


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint to `folder`, in place of one that may be there."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not _is_whole(folder)):
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
                shutil.rmtree(old, ignore_errors=True)  # of one that was killed behind them
                folder.rename(old)
            partial.rename(folder)
            _flush_folder(folder.parent)
            shutil.rmtree(old, ignore_errors=True)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _is_whole(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def _remove(folder: Path) -> None:
    """Renamed first: half of a checkpoint must not look like one."""
    shutil.rmtree(folder.rename(folder.with_name(f"{PARTIAL}{folder.name}-old")))


def read(folder: Path, training: bool = False) -> Checkpoint:
    """Read a checkpoint, every byte checked; with `training`, the state of its run too.

    The weights are mapped from their file as they are asked for: whoever keeps them copies them.
    """
    contents = _verified(folder, training)
    tokenizers = {
        name.removesuffix(SUBWORDS): Tokenizer(content)
        for name, content in contents.items()
        if name.endswith(SUBWORDS)
    }
    state = None
    if training and STATE_TENSORS in contents:
        values = json.loads(contents[STATE_VALUES])
        state = TrainingState(load(contents[STATE_TENSORS]), values)
    settings = RunSettings.from_toml(contents[SETTINGS].decode())
    return Checkpoint(settings, WeightsFile(folder / WEIGHTS), tokenizers, state)


def average(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints of one run (§6.1)."""
    total: dict[str, Tensor] = {}
    for folder in checkpoints:
        for name, tensor in read(folder).weights.items():
            if not tensor.is_floating_point():
                raise CheckpointError(
                    f"{folder.name} is quantised, and cannot be averaged.",
                    "Its integers mean something with their own scales only.",
                    "Average the checkpoints that it was made from, then quantise the average.",
                )
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(checkpoints)).float() for name, tensor in total.items()}


def _verified(folder: Path, training: bool) -> dict[str, bytes]:
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint.",
            f"It has no {MANIFEST}, which every complete checkpoint has.",
            "Name the folder of a run, or one of the step-… folders in it.",
        )
    digests = _manifest(path)
    contents: dict[str, bytes] = {}
    for name, digest in digests.items():
        if not training and name in (STATE_TENSORS, STATE_VALUES):
            continue
        file = folder / name
        if not file.is_file() or sha256_of(file) != digest:
            raise _damaged(file)
        if name != WEIGHTS:  # they may be large, and are mapped
            contents[name] = file.read_bytes()
    return contents


def _manifest(path: Path) -> dict[str, str]:
    try:
        digests = json.loads(path.read_bytes())
    except ValueError:
        raise _damaged(path) from None
    if not isinstance(digests, dict) or not {WEIGHTS, SETTINGS} <= digests.keys():
        raise _damaged(path)
    return digests


def _damaged(path: Path) -> CheckpointError:
    size = path.stat().st_size if path.is_file() else 0
    return CheckpointError(
        f"The checkpoint {path.parent.name} is damaged: {path.name}.",
        f"Its {size:,} bytes are not those that were written.",
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


class RunFolder:
    """The checkpoints of one run, `step-00001000` and so on, with links `latest` and `best`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def steps(self) -> list[Path]:
        """Complete checkpoints, the oldest first."""
        return sorted(p for p in self.path.glob("step-*") if (p / MANIFEST).is_file())

    def last(self, count: int) -> list[Path]:
        """At most `count` of the last checkpoints, the oldest first, with none missing in between.

        The best one is kept however old it is, and is then not of the last.
        """
        steps = self.steps()
        first = max(0, len(steps) - 1)
        while first and _follows(steps[first], steps[first - 1]):
            first -= 1
        return steps[first:][-count:]

    def save(self, checkpoint: Checkpoint, step: int, is_best: bool, keep: int) -> Path:
        """Write, point the links at it, and let all but the last `keep` and the best go.

        Later steps than this one are of a run that has gone back, and go too.
        """
        folder = self.path / f"step-{step:08d}"
        with one_clear_error(f"The checkpoint {folder.name}"):
            self.path.mkdir(parents=True, exist_ok=True)
            for name in ("step", "latest", "best"):  # of a run that was killed as it wrote
                for debris in self.path.glob(f"{PARTIAL}{name}-*"):
                    debris.unlink() if debris.is_symlink() else shutil.rmtree(debris)
            write(checkpoint, folder)
            self._link("latest", folder)
            if is_best:
                self._link("best", folder)
            so_far = [p.name for p in self.steps() if p.name <= folder.name]
            kept = {*so_far[-keep:], *(p.readlink().name for p in self._links("best"))}
            for old in self.steps():
                if old.name not in kept:
                    _remove(old)
        return folder

    def _links(self, name: str) -> list[Path]:
        return [p for p in [self.path / name] if p.is_symlink()]

    def newest(self, notice: Callable[[str], None]) -> Checkpoint:
        """The latest checkpoint with its training state; a damaged one is named and passed over."""
        for folder in reversed(self.steps()):
            try:
                checkpoint = read(folder, training=True)
            except CheckpointError as error:
                notice(f"{error.what} Going back to the checkpoint before it.")
                continue
            if checkpoint.training is not None:
                return checkpoint
            notice(f"{folder} has weights only. Going back to the checkpoint before it.")
        raise CheckpointError(
            f"{self.path} holds no checkpoint to go on from.",
            "A run saves its first one at its first validation.",
            "Start it without --resume.",
        )

    def _link(self, name: str, folder: Path) -> None:
        fresh = self.path / f"{PARTIAL}{name}-{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(folder.name)
        fresh.replace(self.path / name)


def _follows(later: Path, earlier: Path) -> bool:
    """Whether they are no more updates apart than a run takes before it saves again."""
    apart = int(later.name.removeprefix("step-")) - int(earlier.name.removeprefix("step-"))
    return apart <= read(later).settings.train.validate_every


def find(path: Path) -> Path:
    """The checkpoint that a user means: the folder itself, or a run's best, or its latest."""
    candidates = [path, path / "best", path / "latest", *reversed(RunFolder(path).steps())]
    return next((c for c in candidates if (c / MANIFEST).is_file()), path)


def origin(settings: RunSettings) -> Checkpoint | None:
    """The checkpoint whose subwords and encoder a run begins with, if it starts from another."""
    place = settings.train.start_from
    if place is None:
        return None
    folder = find(Path(place))
    if not _is_whole(folder):
        raise CheckpointError(
            f"train.start_from = {place!r} names no run.",
            "This one begins with the subwords and the encoder of that one.",
            f"Train that one first: glassformer train RECIPE.toml --run {place}.",
        )
    before = read(folder)
    if not all(before.weights[name].is_floating_point() for name in before.weights):
        raise CheckpointError(
            f"train.start_from = {place!r} is quantised, and cannot be learned on from.",
            "Its weights are in eight bits, and what they were before is not in it.",
            "Name the run that it was made from.",
        )
    return before
