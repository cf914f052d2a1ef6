"""An exported model answers elsewhere as it does here."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from cli.models import write_model
from glassformer.checkpoint.weights import as_arrays, set_weights, weights_of
from glassformer.config import ModelSettings
from glassformer.errors import InputError, MissingPackageError
from glassformer.interop.halves import in_halves
from glassformer.model.build import build
from interop import foreign_models as tiny

TEXTS = ("a dog sees the cat", "the cat", "a")
MARIAN = {"residual": "post-norm"}
SIZES: dict[str, Any] = {"vocab_size": 20, "d_model": 16, "n_heads": 4, "d_ff": 24, "dropout": 0.0}


def test_marian_s_order_of_features_gives_the_same_function() -> None:
    settings = ModelSettings(**SIZES, encoder_layers=2, decoder_layers=2, attention_bias=True)
    ours = tiny.randomise(build(settings))
    turned_settings, weights = in_halves(settings, as_arrays(weights_of(ours)))
    turned: Any = build(turned_settings).eval()
    set_weights(turned, weights)
    source, target = torch.randint(1, 20, (2, 7)), torch.randint(1, 20, (2, 5))
    with torch.inference_mode():
        torch.testing.assert_close(turned(source, target), ours(source, target))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's exporter
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("to", "int8"),
    [("hf", False), ("ctranslate2", False), ("onnx", False), ("onnx", True), ("torch", False)],
)
def test_an_exported_model_gives_the_same_tokens(
    to: str, int8: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("run", model=MARIAN)
    done = gf.export("run", to, tmp_path / "there", int8=int8, texts=TEXTS)
    assert done.checked == len(TEXTS)
    if not int8:  # rounded weights may answer otherwise
        assert done.same == len(TEXTS), done.differences
    if to == "hf":
        again = gf.import_model(tmp_path / "there", output=tmp_path / "again").load(threads=1)
        ours: Any = gf.load("run", threads=1)
        assert again.translate(list(TEXTS), 1) == ours.translate(list(TEXTS), 1)


def test_what_a_format_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("run")
    with pytest.raises(InputError, match="cannot be written as a MarianMTModel"):
        gf.export("run", "hf", tmp_path / "there")
    with pytest.raises(InputError, match="There is no format 'onxx'"):
        gf.export("run", "onxx", tmp_path / "there")
    with pytest.raises(InputError, match="has no eight bits"):
        gf.export("run", "hf", tmp_path / "there", int8=True)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingPackageError, match="onnxruntime"):
        gf.export("run", "onnx", tmp_path / "there")
