"""Optional packages: the extra that installs each, and the error where one is missing."""

import tomllib
from pathlib import Path

import pytest

from glassformer import extras
from glassformer.errors import MissingPackageError
from glassformer.extras import EXTRAS, require_torch

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_the_package_that_stands_for_it(extra: str) -> None:
    package, _ = EXTRAS[extra]
    installed = PROJECT["optional-dependencies"][extra]
    assert any(requirement.startswith(package) for requirement in installed)


def test_every_extra_for_users_is_known() -> None:
    assert PROJECT["optional-dependencies"].keys() - {"dev"} == EXTRAS.keys()


def test_the_core_needs_neither_torch_nor_what_only_torch_files_use() -> None:
    names = " ".join(PROJECT["dependencies"])
    assert "numba" in names and "torch" not in names and "jaxtyping" not in names


def test_where_torch_is_missing_one_block_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_torch("Training")
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "torch")
    with pytest.raises(MissingPackageError) as caught:
        require_torch("Training")
    assert str(caught.value) == (
        "The package 'torch' is not installed.\n"
        "  why:  Training needs it. It comes with the extra 'train'.\n"
        "  next: pip install 'glassformer[train]'"
    )
