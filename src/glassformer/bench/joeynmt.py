"""JoeyNMT as a contender of `bench train`, in an environment of its own.

    python -m venv joeynmt
    joeynmt/bin/pip install torch==2.13.0 numpy pyyaml packaging sentencepiece subword-nmt \
        importlib_metadata tensorboard matplotlib "setuptools<80"
    joeynmt/bin/pip install --no-deps joeynmt==2.3.0
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.config import ModelSettings
from glassformer.data.batch import IGNORE, Batch
from glassformer.errors import InputError

WORKER = Path(__file__).with_name("joeynmt_worker.py")


class JoeyNMT:
    """A process that makes one update with each batch per call, and returns their seconds."""

    def __init__(
        self, python: Path, s: ModelSettings, batches: list[Batch], smoothing: float, rate: float,
        clip: float,
    ) -> None:  # fmt: skip
        settings = s.model_dump() | {"smoothing": smoothing, "rate": rate, "clip": clip}
        arrays: dict[str, NDArray[Any]] = {"settings": np.array(json.dumps(settings))}
        for i, batch in enumerate(batches):
            source, target = batch.inputs
            labels = batch.labels.masked_fill(batch.labels == IGNORE, s.pad_id)
            sides = {"source": source, "input": target, "labels": labels}
            arrays |= {f"{side}_{i}": ids.cpu().numpy() for side, ids in sides.items()}
        self._folder = tempfile.TemporaryDirectory(prefix="glassformer-")
        plan, threads = Path(self._folder.name, "plan.npz"), str(torch.get_num_threads())
        np.savez(plan, **arrays)  # type: ignore[arg-type]
        try:
            self._process = subprocess.Popen(
                [python, "-P", WORKER, plan, threads],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": threads},
            )
        except OSError as error:
            self._folder.cleanup()
            raise InputError(
                f"{python} does not start: {error.strerror}.",
                "JoeyNMT is measured by a Python interpreter of an environment of its own.",
                "Name one that can import joeynmt: --joeynmt PYTHON.",
            ) from None

    def __call__(self) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended; so does its output
        answer = self._process.stdout.readline()
        if not answer:
            raise InputError(
                "JoeyNMT's process ended without an answer.",
                "Its own error is printed above.",
                "Name the interpreter of an environment that can import joeynmt: --joeynmt PYTHON.",
            )
        return float(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()
