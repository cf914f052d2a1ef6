"""`glassformer models`: what comes with the package, and the cards."""

import sys
from pathlib import Path

import pytest

from glassformer import pretrained
from pretrained.stand_ins import CARDS, bundle
from train.runs import Command


@pytest.fixture
def command(glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The command, with two stand-ins for bundled models."""
    bundle(monkeypatch, tmp_path / "package", "en-fr", "sentiment")
    return glassformer


def test_a_list_has_purpose_kind_direction_size_score_and_licence(command: Command) -> None:
    code, out, err = command("models")
    assert (code, err) == (0, "")
    sizes = {name: f"{pretrained.size(name) / 1e6:.1f} MB" for name in CARDS}
    assert out.split("\n\n") == [
        f"en-fr: English to French\n  translator, en → fr, {sizes['en-fr']}\n"
        "  score: none\n  licence: any",
        f"sentiment: Is a film good?\n  classifier, {sizes['sentiment']}\n",
    ]


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_printed_as_it_was_written(command: Command, name: str) -> None:
    assert command("models", name) == (0, CARDS[name], "")


def test_on_a_terminal_a_card_is_laid_out(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = command("models", "en-fr")
    assert code == 0 and "English to French" in out and "never trained: œ" in out
    assert "#" not in out and "*nothing*" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_an_unknown_name_is_told_what_there_is(command: Command) -> None:
    code, out, err = command("models", "en-de")
    assert (code, out) == (4, "")
    assert "no model 'en-de'" in err and "en-fr, sentiment" in err and "mean 'en-fr'" in err


def test_a_package_without_models_is_reported(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle(monkeypatch, tmp_path / "package")
    code, out, err = glassformer("models")
    assert (code, out) == (4, "") and "No model comes with this copy" in err
    assert "glassformer demo" in err.partition("next:")[2]
