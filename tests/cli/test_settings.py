"""`glassformer settings`: the reference of all settings, made from config.py."""

from pathlib import Path

import pytest

from glassformer.cli.settings import SECTIONS, comments, listing, reference
from glassformer.config import RunSettings, Settings
from glassformer.errors import SettingsError
from train.runs import Command


def test_every_setting_of_a_recipe_has_a_row() -> None:
    text = reference()
    for section, cls in SECTIONS.items():
        for name, field in cls.model_fields.items():
            if f"{section}.{name}" not in SECTIONS:
                assert f"| `{section}.{name}` |" in text, field
    assert {name.partition(".")[0] for name in SECTIONS} == set(RunSettings.model_fields)


def test_a_row_has_default_values_and_meaning() -> None:
    table = reference("train.decay_share")
    assert "| `train.decay_share` | `0.2` | number > 0, ≤ 1 |" in table
    assert "train.warmup" not in table
    assert "| `data.sources.weight` | required | number > 0 |" in reference("data.sources")


def test_a_comment_above_a_setting_comes_before_the_one_beside_it() -> None:
    class Sample(Settings):
        # Lines above
        # belong to it.
        first: int = 1  # beside it
        second: int = 2

    found = comments(Sample)
    assert found["first"] == "Lines above belong to it. beside it"
    assert found["second"] == ""


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"(?s)no setting 'train.wamup'.*'train.warmup'"):
        reference("train.wamup")


@pytest.mark.parametrize("width", [60, 78])
def test_what_is_printed_fits_the_terminal_and_loses_no_word(width: int) -> None:
    text = listing(None, width)
    assert max(map(len, text.splitlines())) <= width
    words = set(text.split())
    for line in reference().splitlines():
        if line.startswith("| `"):
            cells = line.replace("\\|", "").replace("`", "").strip("| ").split(" | ")
            assert {word for cell in cells[1:] for word in cell.split()} <= words, line


def test_one_setting_is_a_short_block_and_markdown_goes_to_a_file(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = glassformer("settings", "train.ema")
    assert code == 0 and out.splitlines() == [
        "[train]",
        "",
        "train.ema: default 0.0",
        "    number ≥ 0, < 1",
        "    Decay of the weight average that is validated; 0: none",
    ]
    code, out, told = glassformer("settings", "train", "--markdown", "train.md")
    assert code == 0 and "written: train.md" in out + told
    assert Path("train.md").read_text() == reference("train")
