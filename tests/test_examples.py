"""Every script of examples/ runs, and the Transformer by hand is the one of `model/`."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import glassformer as gf

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


def example(name: str) -> SimpleNamespace:
    """Return the names that a script defines, without running its `__main__` part."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / name)))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_what_it_does(name: str) -> None:
    text = (EXAMPLES / name).read_text("utf-8")
    limit = 150 if name == "transformer_by_hand.py" else 75  # lines
    assert len(text.splitlines()) <= limit
    assert text.startswith(('"""', "# %% [markdown]"))


def test_a_list_of_texts_trains_a_classifier(tmp_path: Path) -> None:
    script = example("train_classifier.py")
    classifier = script.train(script.examples(), tmp_path / "run", steps=50)
    assert set(classifier.labels) == {"good", "bad"}
    found = classifier.classify(["The book was wonderful.", "The hotel is awful."])
    assert [one.label for one in found] == ["good", "bad"]


def test_a_file_is_translated_line_by_line(tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = ["Two dogs are playing in the snow.", "", "A man is reading a book."]
    source.write_text("\n".join(lines) + "\n", "utf-8")
    example("translate_file.py").main(str(source), str(target))
    found = target.read_text("utf-8").splitlines()
    assert found == gf.load("en-fr").translate(lines)
    assert found[0] and not found[1] and found[2]


def test_a_position_scheme_of_ones_own_tells_order() -> None:
    script = example("position_scheme.py")
    torch.manual_seed(1)
    ids = torch.randint(1, script.SYMBOLS + 1, (1, 9))
    order = torch.randperm(9)
    for scheme, sees_order in (("none", False), ("log-distance", True)):
        model = script.tagger(scheme).eval()
        moved = torch.allclose(model(ids)[:, order], model(ids[:, order]), atol=1e-5)
        assert moved is not sees_order


def test_a_position_scheme_of_ones_own_is_trained() -> None:
    script = example("position_scheme.py")
    torch.manual_seed(1)
    model = script.tagger("log-distance")
    before = model.encoder.positions.raw.detach().clone()
    assert 0 <= script.learn(model, steps=2) <= 1
    assert not torch.equal(model.encoder.positions.raw, before)


def test_the_notebook_plots_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = example("plot_attention.py")
    assert {path.name for path in tmp_path.iterdir()} == {"links.png", "heads.png"}
    layers, heads, *_ = script.trace.attention["cross"].shape
    assert script.cross.shape[0] == heads
    assert layers >= 1
    assert "sharpest head of the last layer" in capsys.readouterr().out


@pytest.fixture(scope="module")
def by_hand() -> SimpleNamespace:
    return example("transformer_by_hand.py")


def test_the_transformer_by_hand_equals_the_built_one(by_hand: SimpleNamespace) -> None:
    sizes = {"vocab_size": 11, "d_model": 16, "n_heads": 4, "d_ff": 24}
    built = gf.build(
        "tiny", residual="post-norm", dropout=0.0, encoder_layers=2, decoder_layers=2, **sizes
    ).eval()
    model = by_hand.Transformer(**sizes, n=2)
    model.load_state_dict(renamed(built.state_dict()))
    source, target = torch.randint(3, 11, (3, 7)), torch.randint(3, 11, (3, 5))
    source[0, 4:] = by_hand.PAD
    torch.testing.assert_close(model(source, target), built(source, target), atol=1e-4, rtol=1e-4)


def renamed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename weights of `gf.build` to those of the script, which has no stacks."""
    found = {"embedding": weights["encoder.embedding.weight"]}
    for name, tensor in weights.items():
        if ".layers." in name:
            name = name.replace(".layers.", ".").replace("_residual.norm.", "_norm.")
            found[name.replace("norm.gain", "norm.weight")] = tensor
    return found


def test_the_transformer_by_hand_learns_to_reverse(by_hand: SimpleNamespace) -> None:
    torch.manual_seed(1)
    model = by_hand.Transformer(vocab_size=6, d_model=32, n_heads=2, d_ff=32, n=1)
    by_hand.train(model, steps=300, longest=3, symbols=3, rate=5e-3)
    assert by_hand.exact(model, longest=3, symbols=3, batches=4) > 0.9


def test_greedy_search_by_hand_ends_with_the_source(by_hand: SimpleNamespace) -> None:
    model = by_hand.Transformer(vocab_size=6, d_model=8, n_heads=2, d_ff=8, n=1)
    assert by_hand.reverse(model, torch.full((2, 5), by_hand.FIRST)).shape == (2, 5)
