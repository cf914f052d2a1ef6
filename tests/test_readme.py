"""What the README shows is what happens."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glassformer.checkpoint import adopt_weights, weights_of
from glassformer.config import RunSettings
from glassformer.data.check import check
from glassformer.model.build import build

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_python_of_the_readme_runs() -> None:
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted >= 6
    assert result.failed == 0


def test_the_commands_that_are_shown_with_their_output_print_it() -> None:
    shown = re.findall(r"```\n\$ glassformer (.+)\n((?:.|\n)*?)```", README)
    assert shown
    for command, output in shown:
        run = [sys.executable, "-m", "glassformer", *command.split()]
        said = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout
        assert said == output


def test_what_the_readme_says_that_the_bundled_models_say_they_say() -> None:
    shown = re.findall(r'^glassformer (translate|classify) "(.+?)" +# (.+)$', README, re.MULTILINE)
    assert {verb for verb, _, _ in shown} == {"translate", "classify"}
    for verb, text, told in shown:
        run = [sys.executable, "-m", "glassformer", verb, text]
        said = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout
        if verb == "classify":  # in INT8 a probability may move by hundredths with the processor
            (said, probability), (told, expected) = said.split(), told.split()
            assert float(probability) == pytest.approx(float(expected), abs=0.03)
        assert said.strip() == told


def test_equation_1_of_the_readme_is_that_of_the_code() -> None:
    (block,) = re.findall(r"```python\n(scores = .*?)```", README, re.DOTALL)
    code = (ROOT / "src/glassformer/model/attention.py").read_text()
    assert "".join(f"    {line}\n" for line in block.splitlines()) in code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("command", re.findall(r"glassformer train (recipes/\w+\.toml)", README))
def test_the_recipes_that_are_named_exist(command: str) -> None:
    assert (ROOT / command).is_file()


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.name)
def test_every_recipe_reads_and_begins_with_what_it_is(recipe: Path) -> None:
    text = recipe.read_text()
    assert text.startswith("# ")
    RunSettings.from_toml(text)


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.name)
def test_the_settings_of_every_recipe_go_together_and_with_where_it_starts_from(
    recipe: Path,
) -> None:
    settings = RunSettings.from_toml(recipe.read_text())
    check(settings)
    with torch.device("meta"):  # shapes are all that counts
        model = build(settings.model)
        if settings.train.start_from is None:
            return
        name = Path(settings.train.start_from).name  # where `glassformer train` puts that run
        before = RunSettings.from_toml((ROOT / "recipes" / f"{name}.toml").read_text())
        adopt_weights(model, weights_of(build(before.model)))
    assert settings.data.fold_case == before.data.fold_case
    assert settings.data.subwords == before.data.subwords
