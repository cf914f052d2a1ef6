"""Programs that tests run in their own processes: the engine without torch, weights from a file."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.compiled import cache_folder, kernel_name
from glassformer.config import ModelSettings
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search
from glassformer.engine.model import CompiledModel
from glassformer.engine.sizes import LEVELS

TESTS = Path(__file__).parent.parent
WAYS = {"greedy": {"beam_size": 1}, "beam": {"beam_size": 4, "n_best": 2}}


def save(folder: Path, settings: ModelSettings, weights: dict[str, Any]) -> Path:
    (folder / "settings.toml").write_text(settings.to_toml())
    np.savez(folder / "weights.npz", **weights)
    return folder


def load(folder: str | Path, **options: Any) -> CompiledModel:
    settings = ModelSettings.from_toml((Path(folder) / "settings.toml").read_text())
    return CompiledModel(settings, dict(np.load(Path(folder) / "weights.npz")), **options)


def found(model: CompiledModel, sources: list[list[int]], **options: Any) -> list[Any]:
    """Answers as plain lists; floats keep their bits in JSON."""
    options = {"max_length": 12, **options}
    answers = search(model, sources, BOS, EOS, SearchOptions(**options))
    return [[[h.ids, h.log_probability, h.score, h.complete] for h in each] for each in answers]


def log_probs(model: CompiledModel, source: list[int], inputs: list[int]) -> np.ndarray:
    return model.start([source], 1, 1, len(inputs)).prefill(np.array([inputs])).rows()[0]


def tagger_of(weight: np.ndarray, scale: np.ndarray | None, bias: np.ndarray) -> CompiledModel:
    """A tagger whose output matrix is `weight`; with a scale it has eight bits."""
    classes, width = weight.shape
    settings = ModelSettings(
        kind="tagger",
        n_classes=classes,
        d_model=width,
        n_heads=1,
        d_ff=1,
        encoder_layers=1,
        vocab_size=1,
        positions="none",
        feed_forward_bias=False,
    )
    shapes = {
        "encoder.embedding.weight": (1, width),
        "encoder.layers.0.self_attention.qkv.weight": (3 * width, width),
        "encoder.layers.0.self_attention.output.weight": (width, width),
        "encoder.layers.0.self_attention_residual.norm.gain": (width,),
        "encoder.layers.0.self_attention_residual.norm.bias": (width,),
        "encoder.layers.0.feed_forward.expand.weight": (1, width),
        "encoder.layers.0.feed_forward.contract.weight": (width, 1),
        "encoder.layers.0.feed_forward_residual.norm.gain": (width,),
        "encoder.layers.0.feed_forward_residual.norm.bias": (width,),
        "encoder.final_norm.gain": (width,),
        "encoder.final_norm.bias": (width,),
    }
    weights: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    weights |= {"output.weight": weight, "output.bias": bias}
    if scale is not None:
        weights["output.weight.scale"] = scale
    return CompiledModel(settings, weights, threads=1)


def integer_product(rows: int, inputs: int, outputs: int, seed: int = 0) -> tuple[Any, Any]:
    """Return the engine's product of random integers and the exact one.

    Each row holds ±LEVELS, so that its scale is 1 and eight bits hold it without an error.
    """
    random = np.random.default_rng([seed, rows, inputs, outputs])
    x = random.integers(-LEVELS, LEVELS + 1, (rows, inputs))
    x[np.arange(rows), random.integers(0, inputs, rows)] = random.choice([-LEVELS, LEVELS], rows)
    w = random.integers(-127, 128, (outputs, inputs))
    w[0], x[0] = 127, LEVELS  # the largest sum, and of either sign: where 16 bits would overflow
    w[1] = -127
    ones, zeros = np.ones(outputs, np.float32), np.zeros(outputs, np.float32)
    model = tagger_of(w.astype(np.int8), ones, zeros)
    return model._output(x.astype(np.float32)), x @ w.T


def run(
    code: str, *arguments: Any, timeout: float = 600, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run Python code with this file's names in a new process; `arguments` are sys.argv[1:]."""
    return subprocess.run(
        command(code, *arguments),
        env=variables(**environment),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def command(code: str, *arguments: Any) -> list[str]:
    texts = [str(a) if isinstance(a, str | Path) else json.dumps(a) for a in arguments]
    return [sys.executable, "-c", f"from engine.child import *\n{code}", *texts]


def variables(**environment: str) -> dict[str, str]:
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}


def answer(code: str, *arguments: Any, **options: Any) -> Any:
    """Run code that prints JSON on its last line, and return it."""
    done = run(code, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


__all__ = [
    "BOS", "EOS", "LEVELS", "TESTS", "WAYS", "CompiledModel", "Path", "SearchOptions", "answer",
    "cache_folder", "command", "found", "integer_product", "json", "kernel_name", "load",
    "log_probs", "np", "os", "run", "save", "search", "sys", "tagger_of", "variables",
]  # fmt: skip
