"""Runs so small that an update takes milliseconds, and what two runs have in common."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoint import Checkpoint, RunFolder, as_tensors, read
from glassformer.cli.app import main
from glassformer.config import RunSettings
from glassformer.data.prepare import Prepared, prepare
from glassformer.train import verify
from glassformer.train.distributed import ALONE, World
from glassformer.train.log import Record
from glassformer.train.loop import train
from glassformer.train.run import Run
from glassformer.train.start import start
from glassformer.train.validate import Evaluate

RECIPE = """\
[model]
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
decoder_layers = 1

[data]
name = "copy"
examples = 60
valid_examples = 12
symbols = 5
longest = 6
batch_tokens = 64

[train]
threads = 1
max_steps = 8
warmup = 2
learning_rate = 0.01
log_every = 1
validate_every = 4
keep = 100
"""
TINY = RunSettings.from_toml(RECIPE)
ON_FILES = RunSettings(model=TINY.model, train=TINY.train).replace(
    data={"name": "files", "valid_examples": 12, "batch_tokens": 64}
)

PAIRS = [
    (f"the {colour} {animal} {verb}", f"le {animal} {colour} {verb} ici")
    for colour in ("red", "green", "blue", "brown")
    for animal in ("fox", "hen", "cat", "dog", "owl")
    for verb in ("runs", "sleeps", "eats")
]


def tiny(**sections: Mapping[str, Any]) -> Prepared:
    """A task with the settings above and some changed."""
    return prepare(TINY.replace(**sections), threads=1)


def ending_with_others(data: Prepared, share: float) -> Prepared:
    """A task, the end of which reads other examples than the rest."""
    others = prepare(data.settings.replace(data={"examples": 100, "longest": 4}), threads=1).train
    settings = data.settings.replace(data={"final_share": share})
    return replace(data, settings=settings, final=others)


def text(folder: Path, **sections: Mapping[str, Any]) -> RunSettings:
    """Settings of a run on text files, which are written to `folder`; of English for one text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in {"train": PAIRS[12:], "valid": PAIRS[:12]}.items():
        for side, language in enumerate(("en", "fr")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{name}.{language}").write_text(lines)
    one = "language-model" in sections.get("model", {}).get("kind", "")
    files = {
        name: [str(folder / f"{name}.{language}") for language in ("en", "fr")[: 1 if one else 2]]
        for name in ("train", "valid")
    }
    return ON_FILES.replace(data=files, model={"vocab_size": 60}).replace(**sections)


def trained(
    data: Prepared,
    folder: Path,
    *,
    stop: int | None = None,
    resume: bool = False,
    evaluate: Evaluate | None = None,
    world: World = ALONE,
) -> tuple[Run, str]:
    """A run carried out, with the reason why it ended; `stop` is an update that SIGTERM falls on.

    Notices of a resumed run fail the test: nothing here is damaged.
    """

    run = start(data, folder, world, resume, notice=unexpected)

    def interrupt(*_: object) -> None:
        if world.leads and run.position.step == stop:
            signal.raise_signal(signal.SIGTERM)

    run.optimizers[-1].register_step_post_hook(interrupt)
    return run, train(run, evaluate)


def unexpected(notice: str) -> None:
    raise AssertionError(notice)


def latest(folder: Path) -> Checkpoint:
    return read(folder / "latest", training=True)


def records(folder: Path, kind: str = "_loss") -> list[Record]:
    """The log of a run without what a clock decides: its `train_`, its `valid_` records, or all."""
    clock = ("seconds", "labels_per_second")
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    timeless = [{k: v for k, v in line.items() if k not in clock} for line in lines]
    return [record for record in timeless if any(kind in key for key in record)]


def curve(folder: Path) -> list[float]:
    return [record["train_loss"] for record in records(folder, "train_loss")]


def assert_same_bits(a: Path, b: Path) -> None:
    """Two runs ended with the same weights, the same state and the same log."""
    one, other = latest(a), latest(b)
    assert one.training is not None and other.training is not None
    assert_equal(one.weights, other.weights)
    assert_equal(one.training.tensors, other.training.tensors)
    for state in (one.training, other.training):
        state.values["position"].pop("seconds")
    assert one.training.values == other.training.values
    assert records(a) == records(b)


def assert_equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    """Tensors or arrays: a checkpoint that was read holds arrays."""
    assert a.keys() == b.keys()
    one, other = as_tensors(a), as_tensors(b)
    assert [name for name in a if not torch.equal(one[name], other[name])] == []


def steps(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in RunFolder(folder).steps()]


def debris(folder: Path) -> list[str]:
    """Return the entries that a folder of checkpoints should not hold."""
    known = {"best", "latest", "log.jsonl", "recipe.toml", "tensorboard"}
    known |= {path.name for path in RunFolder(folder).steps()}
    return sorted({path.name for path in folder.iterdir()} - known)


def child(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    """python, in a process of its own that uses one core."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *arguments], stderr=subprocess.PIPE, text=True, env=environment, **options
    )


class KilledError(Exception):
    """Stands for SIGKILL, which would end the tests."""


@contextmanager
def parts_in_this_process() -> Iterator[None]:
    """`verify_resume` without the seconds that each of its processes takes to begin."""
    raise_signal = signal.raise_signal

    def kill(number: int) -> None:
        if number == signal.SIGKILL:
            raise KilledError
        raise_signal(number)

    def part(*arguments: Any) -> None:
        with suppress(KilledError):
            verify.part(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "_carry_out", part)
        patch.setattr(signal, "raise_signal", kill)
        yield


class Command:
    """glassformer, in this process: exit code, stdout and stderr of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._captured = monkeypatch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._captured.readouterr()
        self._patch.setattr(sys, "argv", ["glassformer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *self._captured.readouterr())
