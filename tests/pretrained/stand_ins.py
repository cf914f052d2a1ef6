"""Stand-ins for the bundled models: never trained, in eight bits, in a folder of a test."""

from pathlib import Path

import pytest
import torch

from cli.models import LONGEST, TOKENIZER
from glassformer import checkpoint, pretrained
from glassformer.checkpoint import Checkpoint, weights_of
from glassformer.config import RunSettings
from glassformer.model.build import build
from glassformer.quantize import quantise_weights

CARDS = {
    "en-fr": "# English to French\n\n| | |\n| :-- | :-- |\n| score | none |\n| licence | any |\n\n"
    "Of *nothing*.\n\n## Limits\n\nIt was never trained: œ.\n",
    "sentiment": "# Is a film good?\n\nNobody knows.\n",
}


def write(folder: Path, kind: str, seed: int = 0, card: str = "") -> None:
    """As `glassformer quantize` writes it; a classifier has the labels of imdb."""
    settings = RunSettings.of(
        model={
            "kind": kind, "vocab_size": len(TOKENIZER), "d_model": 32, "n_heads": 2, "d_ff": 32,
            "encoder_layers": 1, "decoder_layers": 1, "tie_target_output": False,
        },
        data={"name": "imdb", "labels": ["0", "1"]} if kind == "classifier" else {},
    ).replace(data={"max_length": LONGEST})  # fmt: skip
    torch.manual_seed(seed)
    weights = weights_of(build(settings.model))
    large = {name: torch.randn_like(w) / 2 for name, w in weights.items() if w.dim() == 2}
    small = quantise_weights(weights | large)
    checkpoint.write(Checkpoint(settings, small, {"joint": TOKENIZER}), folder)
    if card:
        (folder / pretrained.CARD).write_text(card, "utf-8")


def bundle(monkeypatch: pytest.MonkeyPatch, root: Path, *names: str) -> Path:
    """Let these models, and no others, be bundled; and a folder that is none."""
    (root / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(pretrained, "ROOT", root)
    for seed, name in enumerate(names):
        kind = "classifier" if name == pretrained.CLASSIFIER else "translator"
        write(root / name, kind, seed, CARDS[name])
    return root
