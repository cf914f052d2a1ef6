"""`glassformer recipes`, and tables in narrow terminals without torch."""

import os
import subprocess
import sys

import pytest

from glassformer import recipes
from glassformer.config import RunSettings
from train.runs import Command


def test_the_recipes_of_the_package_are_listed_with_a_line_each(glassformer: Command) -> None:
    code, out, _ = glassformer("recipes")
    assert code == 0 and {"multi30k", "imdb", "reverse"} <= set(recipes.names())
    for name in recipes.names():
        assert f"\n{name} " in f"\n{out}" and recipes.about(name)
    assert "glassformer train --translate FILE" in out


def test_a_recipe_is_printed_to_be_changed_or_the_nearest_is_named(glassformer: Command) -> None:
    _, out, _ = glassformer("recipes", "reverse")
    assert RunSettings.from_toml(out).data.name == "reverse"
    code, _, msg = glassformer("recipes", "multi30")
    assert code == 2 and "Did you mean 'multi30k'?" in msg


def test_a_recipe_trains_by_its_name_from_any_folder(glassformer: Command) -> None:
    tiny = ("d_model=8", "d_ff=8", "encoder_layers=1", "data.examples=60", "valid_examples=5")
    code, _, msg = glassformer("train", "copy", "steps=1", "accumulate=1", *tiny)
    assert code == 0 and "runs/copy/best" in msg


@pytest.mark.parametrize("verb", ["recipes", "data list"])
def test_a_table_fits_60_columns_and_needs_no_torch(verb: str) -> None:
    code = "import sys; from glassformer.cli.app import main\ntry:\n  main()\nfinally:\n"
    code += "  assert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code, *verb.split()],
        env={**os.environ, "COLUMNS": "60"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert max(map(len, done.stdout.splitlines())) <= 60
