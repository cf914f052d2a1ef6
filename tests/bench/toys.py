"""Parts that tests of several benches share: a contender in this process, a toy model, its text."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

from glassformer import checkpoint
from glassformer.bench.engines import BOS, PAD
from glassformer.bench.varied_outputs import vary_outputs
from glassformer.checkpoint import Checkpoint, weights_of
from glassformer.config import RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

ENGLISH = ["two children want some tea", "a dog", "the old cat sees a dog"]


class Here:
    """A contender in this process, where it need not be timed fairly."""

    def __init__(self, load: Callable[..., Any], *arguments: Any) -> None:
        self._run = load(*arguments)

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*arguments)

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def write_translator(folder: Path, **changes: object) -> Checkpoint:
    """Write a run that was never trained, with subwords."""
    subwords = Tokenizer.train(ENGLISH * 5, 40)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    settings = RunSettings.of(model={"vocab_size": 40, **sizes, **changes})
    model = build(settings.model).eval()
    assert isinstance(model, Transformer)
    weights = weights_of(vary_outputs(model, banned=[PAD, BOS]))
    content = Checkpoint(settings, weights, {"joint": subwords})
    checkpoint.write(content, folder)
    return content


def write_text(folder: Path, references: list[str]) -> tuple[Path, Path]:
    for name, lines in (("en", ENGLISH), ("fr", references)):
        (folder / f"text.{name}").write_text("".join(f"{line}\n" for line in lines))
    return folder / "text.en", folder / "text.fr"


def pow_of(base: int) -> Callable[[int], tuple[int, int]]:
    """Return a contender that a process of its own can import: base^exponent, and its process."""
    return lambda exponent: (base**exponent, os.getpid())


def deaf_to_sigterm() -> Callable[[float], None]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return sleep
