"""The front door: every public name is found, listed, typed, and none of it waits for torch."""

import ast
import inspect
import subprocess
import sys

import pytest

import glassformer as gf

PUBLIC = [
    "scaled_dot_product_attention",
    "MultiHeadAttention",
    "PositionalEncoding",
    "FeedForward",
    "LayerNorm",
    "RMSNorm",
    "EncoderLayer",
    "TransformerEncoder",
    "DecoderLayer",
    "TransformerDecoder",
    "Transformer",
    "TransformerClassifier",
    "causal_mask",
    "padding_mask",
    "record_attention",
    "build",
]


@pytest.mark.parametrize("name", sorted({*PUBLIC, *gf.__all__}))
def test_a_public_name_is_reachable_and_listed(name):
    assert getattr(gf, name).__name__ == name
    assert name in gf.__all__
    assert name in dir(gf)


def test_a_name_is_the_object_of_its_home():
    from glassformer.model.attention import MultiHeadAttention

    assert gf.MultiHeadAttention is MultiHeadAttention


def test_a_star_import_brings_exactly_the_public_names():
    names: dict[str, object] = {}
    exec("from glassformer import *", names)
    assert names.keys() - {"__builtins__"} == set(gf.__all__)


def test_type_checkers_homes_and_all_tell_of_the_same_names():
    tree = ast.parse(inspect.getsource(gf))
    (block,) = (
        n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    )
    typed = {i.module: tuple(alias.name for alias in i.names) for i in block.body}
    homes = {f"glassformer.{home}": names for home, names in gf._HOMES.items()}
    assert typed == homes
    assert sorted(name for names in homes.values() for name in names) == sorted(gf.__all__)


def test_an_unknown_attribute_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="'glassformer' has no attribute 'Transfomer'"):
        _ = gf.Transfomer
    assert not hasattr(gf, "numpy")


@pytest.mark.parametrize("module", ["glassformer", "glassformer.config", "glassformer.errors"])
def test_importing_it_does_not_import_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_comes_with_the_first_name_that_needs_it():
    code = "import sys, glassformer as gf; gf.LayerNorm; sys.exit('torch' not in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
