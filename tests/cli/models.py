"""Models that were never trained, in folders: weights so large that they say this and that."""

import io
import sys
from pathlib import Path

import pytest
import torch

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, weights_of
from glassformer.config import RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.model.build import build

TEXTS = ["a dog", "the old cat sees a dog", "two children want some tea", "un vieux chat voit"]
TOKENIZER = Tokenizer.train(TEXTS * 5, 60)
LONGEST = 30  # subwords that these models take


def write_model(
    folder: str | Path = "run",
    kind: str = "translator",
    seed: int = 0,
    tokenizer: Tokenizer | None = TOKENIZER,
    model: dict[str, object] | None = None,
) -> None:
    size = len(tokenizer or TOKENIZER)
    settings = RunSettings.of(
        model={
            "kind": kind, "vocab_size": size, "d_model": 16, "n_heads": 2, "d_ff": 32,
            "encoder_layers": 1, "decoder_layers": 1, "tie_target_output": False,
            **(model or {}),
        },
        data={"max_length": LONGEST, "labels": ("sad", "glad") if kind == "classifier" else ()},
    )  # fmt: skip
    torch.manual_seed(seed)
    weights = weights_of(build(settings.model))
    large = {name: torch.randn_like(w) / 2 for name, w in weights.items() if w.dim() == 2}
    tokenizers = {"joint": tokenizer} if tokenizer else {}
    checkpoint.write(Checkpoint(settings, weights | large, tokenizers), Path(folder))


def type_in(monkeypatch: pytest.MonkeyPatch, content: str | bytes) -> None:
    """Let standard input hold this."""
    raw = content if isinstance(content, bytes) else content.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), "utf-8"))
