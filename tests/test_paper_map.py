"""Every row of docs/paper_map.md points at a symbol and a test that exist."""

import ast
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|\n").split("|")]
    for line in (TESTS.parent / "docs/paper_map.md").read_text().splitlines()
    if re.match(r"\|.*`", line)
]


def names(row: list[str]) -> str:
    return f"{row[0]}-{row[1]}"


def test_the_map_has_rows_of_four_cells() -> None:
    assert len(ROWS) > 30
    assert {len(row) for row in ROWS} == {4}


@pytest.mark.parametrize("row", ROWS, ids=names)
def test_the_symbol_exists(row: list[str]) -> None:
    module, _, name = row[1].rpartition(".")
    if module.endswith("Tokenizer"):  # a method
        module, name = module.rpartition(".")[0], f"Tokenizer.{name}"
    reduce(getattr, name.split("."), import_module(f"glassformer.{module}"))


@pytest.mark.parametrize("row", ROWS, ids=names)
def test_the_test_exists(row: list[str]) -> None:
    path, _, name = row[2].partition("::")
    tree = ast.parse((TESTS / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_class_of_the_model_is_on_the_map() -> None:
    import glassformer.model

    folder = Path(glassformer.model.__file__).parent
    mapped = {row[1].split(".")[2] for row in ROWS if row[1].startswith("model.")}
    unmapped = {
        "Dropout", "NoPositions", "LearnedBias", "LayerCache", "DecoderCache", "Part",
        "Description", "LanguageModel", "TransformerClassifier", "TransformerTagger",
    }  # parts of what is mapped, or heads that no paper describes  # fmt: skip
    for path in folder.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                assert node.name in mapped | unmapped, f"{path.name}: {node.name}"
