"""The front door: every public name is found, and inference works where torch is not installed."""

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import glassformer as gf
from cli.models import write_model
from glassformer.cli.app import VERBS
from glassformer.compiled import cache_folder
from glassformer.data.direction import guess_language

REPOSITORY = Path(__file__).parents[1]
SENTENCE = "A man is riding a red bicycle."
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
    assert getattr(gf, name).__name__.removeprefix("glassformer.") == name
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
    packages = tuple(sorted({*gf._PACKAGES} - {*gf._CALLABLE_MODULES}))
    homes = {f"glassformer.{home}": names for home, names in gf._HOMES.items()}
    homes["glassformer.api"] = packages  # a type checker knows their functions from there
    assert typed == homes
    assert sorted(name for names in homes.values() for name in names) == sorted(gf.__all__)


def test_an_unknown_attribute_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="'glassformer' has no attribute 'Transfomer'"):
        _ = gf.Transfomer
    assert not hasattr(gf, "numpy")


@pytest.mark.parametrize(
    "module",
    [
        "glassformer",
        "glassformer.config",
        "glassformer.errors",
        "glassformer.checkpoint",
        "glassformer.decode.search",
        "glassformer.doctor",
        "glassformer.engine.model",
        "glassformer.evaluate.classification",
        "glassformer.evaluate.failures",
        "glassformer.evaluate.translation",
        "glassformer.pipeline",
        "glassformer.quantize",
    ],
)
def test_importing_it_does_not_import_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_comes_with_the_first_name_that_needs_it():
    code = "import sys, glassformer as gf; gf.LayerNorm; sys.exit('torch' not in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# Without torch

# What a user does, in the order in which files come to be. Whether torch was imported comes last.
INFERENCE = [
    ["--help"],
    ["models"],
    ["translate", SENTENCE],
    ["classify", "A dull film that one forgets."],
    ["generate", "--model", "generator", "a dog", "--max-length", "8"],
    ["quantize", "translator", "--output", "small"],
    ["translate", "a dog", "--model", "small"],
    ["evaluate", "en-fr", "--source", "a.en", "--reference", "a.fr"],
    ["evaluate", "sentiment", "--data", "reviews.jsonl"],
]
# Prints, as JSON, the exit code and output of each command line in argv[1], and whether torch came.
DRIVER = """
import io, json, sys
from contextlib import redirect_stdout
from glassformer.cli.app import main

results = []
for arguments in json.loads(sys.argv[1]):
    sys.argv, code, out = ["glassformer", *arguments], 0, io.StringIO()
    with redirect_stdout(out):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    results.append([code, out.getvalue()])
print(json.dumps([results, "torch" in sys.modules]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Models and texts that the commands are about."""
    write_model(tmp_path / "translator")
    write_model(tmp_path / "generator", "language-model")
    (tmp_path / "a.en").write_text(f"{SENTENCE}\n")
    (tmp_path / "a.fr").write_text("Un homme fait du vélo rouge.\n", "utf-8")
    reviews = [{"text": "A wonderful film.", "label": "1"}, {"text": "Dull.", "label": "0"}]
    (tmp_path / "reviews.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in reviews))
    return tmp_path


def carried_out(python: Path, folder: Path, cache: Path) -> bool:
    """Run all of `INFERENCE` in one process and check what it prints; whether torch came."""
    environment = {**os.environ, "GLASSFORMER_CACHE": str(cache), "PYTHONPATH": ""}
    command = [python, "-c", DRIVER, json.dumps(INFERENCE)]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300)
    assert run.returncode == 0, run.stderr.decode()
    results, has_torch = json.loads(run.stdout)
    assert [code for code, _ in results] == [0] * len(INFERENCE), run.stderr.decode()
    out = [text for _, text in results]
    assert all(verb in out[0] for verb in VERBS)
    assert "\nen-fr:" in out[1] and "captions-en-fr:" in out[1] and "sentiment" in out[1]
    assert guess_language(out[2]) == "fr"
    assert out[3].startswith("negative\t")
    assert out[4].startswith("a dog")
    assert "written to small" in out[5] and (folder / "small/manifest.json").is_file()
    assert "BLEU" in out[7] and "accuracy" in out[8]
    return bool(has_torch)


def test_inference_on_the_command_line_does_not_import_torch(folder: Path) -> None:
    assert not carried_out(Path(sys.executable), folder, cache_folder().parents[1])


def test_inference_in_python_does_not_import_torch() -> None:
    code = (
        "import sys, glassformer as gf;"
        f"print(gf.load('en-fr').translate({SENTENCE!r}));"
        "sys.exit('torch' in sys.modules)"
    )
    environment = {**os.environ, "GLASSFORMER_CACHE": str(cache_folder().parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    assert guess_language(run.stdout.decode()) == "fr"


def core() -> list[Distribution]:
    """The packages that the core package needs, and those that they need."""
    found: dict[str, Distribution] = {}

    def add(requirements: list[str]) -> None:
        for requirement in map(Requirement, requirements):
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            one = distribution(requirement.name)
            if one.metadata["Name"] not in found:
                found[one.metadata["Name"]] = one
                add(one.requires or [])

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    add(project["dependencies"])
    return list(found.values())


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of an environment with the core wheel and what it needs, linked from this one."""
    place = tmp_path_factory.mktemp("core")
    source = place / "source"  # a build leaves files beside the sources
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source.mkdir(exist_ok=True) or source)
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(REPOSITORY / "src", source / "src", ignore=skipped)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "-w", place]
    subprocess.run([*pip, "wheel", *options, source], check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    venv.create(place / "venv", symlinks=True)
    python = place / "venv/bin/python"
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    for one in core():
        for top in {file.parts[0] for file in one.files or [] if file.parts[0] != ".."}:
            if not (packages / top).exists() and top != "__pycache__":
                (packages / top).symlink_to(Path(str(one.locate_file(top))))
    install = ["--python", python, "install", "--no-deps", "--no-index", wheel]
    subprocess.run([*pip[:3], *install], check=True, capture_output=True)
    yield python


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_the_core_package_works_where_torch_is_not_installed(
    folder: Path, without_torch: Path, tmp_path: Path
) -> None:
    absent = "import importlib.util as i, sys; sys.exit(bool(i.find_spec('torch')))"
    subprocess.run([without_torch, "-c", absent], check=True)
    home = "import glassformer; print(glassformer.__file__)"
    found = subprocess.run([without_torch, "-c", home], check=True, capture_output=True, text=True)
    assert str(without_torch.parents[1]) in found.stdout
    assert not carried_out(without_torch, folder, tmp_path / "cache")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "recipe.toml"],
        ["demo"],
        ["describe", "tiny"],
        ["inspect", "en-fr", "A dog."],
        ["align", "en-fr"],
        ["profile", "tiny"],
        ["lab", "run", "scaling"],
        ["bench", "model"],
        ["bench", "decode"],
        ["bench", "train"],
        ["ablate", "recipe.toml", "--vary", "train.seed=1,2"],
    ],
    ids=" ".join,
)
def test_a_verb_that_needs_torch_names_the_extra(
    without_torch: Path, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "recipe.toml").write_text("")
    command = [without_torch, "-m", "glassformer", *arguments]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 2 and run.stdout == ""
    assert "error: The package 'torch' is not installed." in run.stderr
    assert "next: pip install 'glassformer[train]'" in run.stderr
    assert "Traceback" not in run.stderr and len(run.stderr.splitlines()) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize(
    "code", ["gf.build('tiny')", "gf.Transformer", "gf.load('en-fr', engine='torch')"]
)
def test_a_name_that_needs_torch_names_the_extra(without_torch: Path, code: str) -> None:
    command = [without_torch, "-c", f"import glassformer as gf; {code}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "pip install 'glassformer[train]'" in run.stderr
