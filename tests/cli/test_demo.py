"""`glassformer demo`: from nothing to a picture of a trained model, and at once the next time."""

import sys
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint import RunFolder
from glassformer.cli.demo import SHOWN, recipe
from glassformer.cli.train import read_recipe
from glassformer.data import grammar
from train.runs import Command, steps

SMALL = (
    "model.d_model=16",
    "model.d_ff=16",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.vocab_size=300",
    "data.examples=200",
    "data.valid_examples=8",
    "train.threads=1",
    "train.max_steps=3",
    "train.validate_every=2",
)


@pytest.fixture(autouse=True)
def _few_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty instead of a thousand to translate, of which hardly any ends by itself."""
    original = grammar.pairs

    def few(split: str, count: int, **options: Any) -> Any:
        return original(split, count if split == "train" else min(count, 20), **options)

    monkeypatch.setattr(grammar, "pairs", few)


def test_the_demo_trains_shows_and_draws(glassformer: Command) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = glassformer("demo", *SMALL)
    assert code == 0, err
    assert "200 examples to train on" in err and "stopped after 3 updates" in err
    assert steps(Path("runs/demo")) == [2, 3]
    for pair in list(grammar.pairs("test", SHOWN)):
        assert f"english    {pair.source}" in out and f"reference  {pair.target}" in out
    assert out.count("\n  output     ") == SHOWN
    assert "BLEU " in out and "on 20 such sentences" in out
    assert "alignment error rate " in out and "layer 1, head " in out
    picture = Path("runs/demo/alignment.png")
    assert picture.read_bytes().startswith(b"\x89PNG") and str(picture) in out
    assert "Next:" in out and "glassformer train reverse" in out

    code, again, err = glassformer("demo", *SMALL)
    assert code == 0 and "the model in runs/demo" in err
    assert "tokens/s" not in err and again == out


def test_a_demo_that_was_interrupted_goes_on(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a checkpoint that is the best so far, and still not what the demo is to show."""
    pytest.importorskip("matplotlib")
    save = RunFolder.save

    def interrupted(*arguments: Any) -> Any:
        save(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", interrupted)
        code, _, _ = glassformer("demo", *SMALL, "--run", "run")
    assert code == 130 and steps(Path("run")) == [2]
    code, _, err = glassformer("demo", *SMALL, "--run", "run")
    assert code == 0 and "stopped after 3 updates" in err


def test_without_matplotlib_the_demo_shows_all_but_the_picture(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = glassformer("demo", *SMALL, "train.max_steps=1")
    assert code == 0, err
    (line,) = [line for line in out.splitlines() if "picture" in line and "matplotlib" in line]
    assert "pip install" in line and "'glassformer[plots]'" in line
    assert "alignment error rate " in out and "Next:" in out
    assert not Path("runs/demo/alignment.png").exists()


def test_the_demos_recipe_is_in_the_package_and_valid() -> None:
    settings = read_recipe(recipe(), [])
    assert settings.data.name == "grammar" and settings.model.kind == "translator"
    assert settings.train.max_minutes is not None and settings.train.max_minutes <= 3
