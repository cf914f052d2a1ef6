"""The README's commands run and print what it shows; commands and links of all pages hold."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from glassformer.checkpoint import adopt_weights, weights_of
from glassformer.cli.app import VERBS, application
from glassformer.cli.settings import reference
from glassformer.config import RunSettings
from glassformer.data.check import check
from glassformer.model.build import build

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TRAINED = r"glassformer (?:train|ablate) ([a-z0-9][\w-]*)(?![\w./-])"  # a recipe's name, no path
RECIPES = ROOT / "src/glassformer/recipes"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


CONSOLE = "\n".join(re.findall(r"```console\n(.*?)```", README, re.DOTALL))
SHOWN = re.findall(r"^\$ glassformer (.+)\n((?:(?!\$ ).+\n)*)", CONSOLE, re.MULTILINE)


def glassformer(command: str, folder: Path) -> str:
    run = [sys.executable, "-m", "glassformer", *shlex.split(command)]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout


def test_the_readme_shows_three_commands() -> None:
    assert [command.split()[0] for command, _ in SHOWN] == ["translate", "classify", "inspect"]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[c.split()[0] for c, _ in SHOWN])
def test_the_commands_of_the_readme_print_what_it_shows(
    command: str, shown: str, tmp_path: Path
) -> None:
    printed = glassformer(command, tmp_path)
    if command.startswith("inspect"):
        assert (tmp_path / "inspect.html").stat().st_size > 10_000
    elif command.startswith("classify"):  # in INT8 a probability varies with the processor
        (label, probability), (told, expected) = printed.split(), shown.split()
        assert label == told
        assert float(probability) == pytest.approx(float(expected), abs=0.03)
    else:
        assert printed == shown


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(import glassformer.*?)```", README, re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    first, last = capsys.readouterr().out.splitlines()
    assert "Deux chiens jouent dans la neige." in first
    assert last == "negative"


def test_equation_1_of_the_readme_is_the_whole_body_of_the_function() -> None:
    (block,) = re.findall(r"```python\n(scores = .*?)```", README, re.DOTALL)
    code = (ROOT / "src/glassformer/model/attention.py").read_text()
    quoted = "".join(f"    {line}\n" for line in block.splitlines())
    _, _, after = code.partition(quoted)
    assert quoted in code
    assert after.startswith("\n\ndef fused_attention"), "the quotation ends with the function"


def test_the_readme_names_the_test_command_that_ci_runs() -> None:
    command = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert f"\n{command} " in README


def test_the_readme_is_about_a_hundred_lines() -> None:
    assert len(README.splitlines()) <= 120


def shown_commands(page: Path) -> list[str]:
    """Return the glassformer commands of all code blocks of a page, without pipes and comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [re.search(r"(?:^|\$ |\| |-m |-- )glassformer ([a-z].*)", line) for line in lines]
    return [re.split(r" (?:#|[|<>]) ?", one[1])[0] for one in found if one]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_have_options_that_exist(page: Path) -> None:
    for command in shown_commands(page):
        words = [word for word in shlex.split(command) if word != "…"]
        if words[0] in VERBS:
            result = CliRunner().invoke(application(words), [*words, "--help"])
            assert result.exit_code == 0, f"{command}: {result.output}"


def test_the_verbs_of_all_pages_exist() -> None:
    verbs = {command.split()[0] for page in PAGES for command in shown_commands(page)}
    assert verbs <= VERBS.keys()


def test_every_file_of_results_is_cited_by_a_page() -> None:
    cited = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:]+)", page.read_text())
    } - {ROOT / "results"}
    files = [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    uncited = [f for f in files if "quick" not in f.parts and not {f, *f.parents} & cited]
    assert [path.relative_to(ROOT).as_posix() for path in uncited] == []


def test_the_settings_page_is_what_the_command_prints() -> None:
    assert (ROOT / "docs/settings.md").read_text() == reference()


def test_every_setting_has_a_meaning() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|.*\| (.*) \|$", reference(), re.MULTILINE)
    assert len(rows) > 90
    assert [name for name, meaning in rows if not meaning] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_recipes_that_are_named_exist() -> None:
    named = {
        name
        for page in PAGES
        for name in re.findall(
            r"glassformer (?:train|ablate) ([a-z0-9][\w-]*)(?![\w./-])", page.read_text()
        )
    }
    assert named
    assert [name for name in named if not (RECIPES / f"{name}.toml").is_file()] == []


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda p: p.name)
def test_every_recipe_reads_and_begins_with_what_it_is(recipe: Path) -> None:
    text = recipe.read_text()
    assert text.startswith("# ")
    RunSettings.from_toml(text)


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda p: p.name)
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
        before = RunSettings.from_toml((RECIPES / f"{name}.toml").read_text())
        adopt_weights(model, weights_of(build(before.model)))
    assert settings.data.fold_case == before.data.fold_case
    assert settings.data.subwords == before.data.subwords
