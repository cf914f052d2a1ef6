"""Every experiment is complete, and experiments of users load from files."""

import ast
from pathlib import Path

import pytest

import glassformer.lab.experiments as package
from glassformer.errors import DataError, SettingsError
from glassformer.lab.experiment import Experiment
from glassformer.lab.finding import STATED

MODULES = sorted(Path(package.__file__).parent.glob("[!_]*.py"))


def test_every_module_is_listed_once_in_order() -> None:
    assert sorted(package.names()) == [path.stem.replace("_", "-") for path in MODULES]
    places = [package.place(name) for name in package.names()]
    assert places == sorted(set(places)), "ORDER names each of them"


@pytest.mark.parametrize("name", package.names())
def test_every_text_of_an_experiment_is_filled(name: str) -> None:
    experiment = package.find(name)
    assert experiment.name == name
    assert all(getattr(experiment, what).strip() for what in STATED)
    for outcome in ("supported", "depends"):
        assert outcome in experiment.rule.lower()
    assert experiment.seeds >= 3


@pytest.mark.parametrize("name", package.names())
def test_the_claim_read_from_the_source_is_that_of_the_experiment(name: str) -> None:
    assert package.claim(name) == package.find(name).claim


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_experiments_do_not_import_matplotlib(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text()))
    names = [n.name for node in nodes if isinstance(node, ast.Import) for n in node.names]
    assert not [name for name in names if name.startswith("matplotlib")]


def test_a_misspelt_name_suggests_the_nearest() -> None:
    with pytest.raises(SettingsError, match="Did you mean 'scaling'"):
        package.find("skaling")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DataError, match=r"There is no file none\.py"):
        package.find("none.py")


def test_a_file_without_an_experiment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("EXPERIMENT = 3\n")
    with pytest.raises(DataError, match="has no EXPERIMENT"):
        package.find(str(tmp_path / "empty.py"))


def test_an_experiment_is_loaded_from_a_file(tmp_path: Path) -> None:
    lines = "from glassformer.lab.experiments.scaling import EXPERIMENT\n"
    (tmp_path / "mine.py").write_text(lines)
    assert isinstance(package.find(str(tmp_path / "mine.py")), Experiment)
