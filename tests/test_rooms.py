"""The rooms of the package import from the rooms before them, never after: DESIGN's table, held."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer

PACKAGE = Path(glassformer.__file__).parent
GROUND = {"errors", "config"}

# What each room may import from the others, in the order in which data flows.
MAY_IMPORT = {
    "errors": set(),
    "aliases": {"errors"},
    "registry": {"errors"},
    "settings_base": {"aliases", "registry", "errors"},
    "config": {"aliases", "registry", "errors", "settings_base"},
    "recipes": set(),
    "extras": {"errors"},
    "device": GROUND | {"extras"},
    "openmp": set(),
    "compiled": {"errors"},
    "machine": {"compiled"},
    "measure": set(),
    "output": {"errors"},
    "picture": {"errors", "output"},
    "quantize": {"callable_module"},
    "ngrams": {"config", "quantize"},
    "callable_module": set(),
    "progress": set(),
    "data": GROUND,
    "model": {"errors"},
    "model/build.py": GROUND | {"registry"},
    "checkpoint": GROUND | {"data"},
    "train": GROUND
    | {"registry", "callable_module", "data", "device", "extras", "model", "checkpoint"}
    | {"ngrams", "quantize", "pretrained"},
    "decode": {"errors", "compiled"},
    "decode/torch_decoder.py": {"errors", "model"},
    "engine": GROUND | {"compiled", "decode", "ngrams", "quantize"},
    "pretrained": GROUND,
    "pipeline": GROUND
    | {"extras", "data", "device", "model", "checkpoint", "decode", "engine", "ngrams"}
    | {"quantize", "pretrained"},
    "evaluate": GROUND
    | {"registry", "callable_module", "data", "model", "decode", "pipeline", "machine", "measure"}
    | {"picture", "progress"},
    "doctor": GROUND
    | {"extras", "compiled", "device", "machine", "checkpoint", "pretrained", "pipeline"},
    "inspect": GROUND
    | {"callable_module", "data", "machine", "model", "decode", "ngrams", "pipeline"}
    | {"evaluate", "output", "picture", "progress"},
    "lab": GROUND
    | {"callable_module", "data", "model", "train", "decode", "evaluate", "inspect", "measure"}
    | {"output", "picture"},
    "serve": GROUND
    | {"callable_module", "extras", "data", "decode", "pretrained", "pipeline", "inspect"}
    | {"evaluate", "progress"},
    "serve/tracing.py": GROUND
    | {"extras", "data", "decode", "pipeline", "evaluate", "inspect", "model"},
}
BEHIND_ALL = {"api", "bench", "interop", "cli"}  # may use everything; `cli` alone may use them
FROM_SCRATCH = {"model", "train", "decode", "engine", "quantize", "pipeline"}
# What a core installation imports: at import time nothing here may need torch or jaxtyping,
TORCH_FREE = {
    *("errors", "aliases", "registry", "settings_base", "config", "recipes", "extras"),
    *("device", "openmp", "compiled", "machine", "measure", "output", "picture"),
    *("ngrams", "quantize"),
    *("data", "checkpoint", "decode", "engine", "pretrained", "pipeline", "evaluate", "doctor"),
    *("api", "callable_module", "progress", "serve", "cli"),
}
# but for these, which are imported when they are asked for.
NEED_TORCH = {
    "checkpoint/weights.py",
    "data/batch.py",
    "data/mixture.py",
    "data/prepare.py",
    "data/store.py",
    "decode/torch_decoder.py",
    "pipeline/torch_models.py",
    "serve/tracing.py",
}


def files() -> list[Path]:
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(path: Path) -> set[str]:
    names = [name.split(".") for name in imports(path)]
    rooms = {parts[1] for parts in names if parts[0] == "glassformer" and len(parts) > 1}
    existing = {room_of(other) for other in files()}
    return (rooms & existing) - {room_of(path)}


@pytest.mark.parametrize("path", [p for p in files() if p.name not in ("__main__.py",)], ids=str)
def test_a_file_imports_only_from_rooms_before_its_own(path: Path) -> None:
    room = room_of(path)
    if path == Path("__init__.py"):
        return  # the public names, which may come from any room
    if room in BEHIND_ALL:
        assert room == "cli" or "cli" not in rooms_imported(path)
        return
    assert room in MAY_IMPORT, f"{room} is a new room: say here what it may import"
    allowed = MAY_IMPORT.get(path.as_posix(), MAY_IMPORT[room])
    assert rooms_imported(path) <= allowed


@pytest.mark.parametrize("path", [p for p in files() if room_of(p) in GROUND], ids=str)
def test_settings_and_errors_do_without_torch(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & {"torch", "numpy"}


def imported_at_once(path: Path) -> set[str]:
    """The modules that a file imports when it is imported itself; not those for type checkers."""
    tree = ast.parse((PACKAGE / path).read_text())
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize(
    "path",
    [p for p in files() if room_of(p) in TORCH_FREE and p.as_posix() not in NEED_TORCH],
    ids=str,
)
def test_inference_imports_neither_torch_nor_what_needs_it(path: Path) -> None:
    names = imported_at_once(path)
    assert not {name.split(".")[0] for name in names} & {"torch", "jaxtyping"}
    torch_side = {f"glassformer.{p.removesuffix('.py').replace('/', '.')}" for p in NEED_TORCH}
    assert not names & torch_side
    rooms = {name.split(".")[1] for name in names if name.startswith("glassformer.")}
    assert not rooms & {"model", "train", "inspect", "lab"}


@pytest.mark.parametrize(
    "path",
    [p for p in files() if room_of(p) in {"engine", "decode"} and p.as_posix() not in NEED_TORCH],
    ids=str,
)
def test_engine_and_search_import_no_torch_model_or_tokenizer_anywhere(path: Path) -> None:
    """Not inside functions either, nor for type checkers."""
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"torch", "jaxtyping", "sentencepiece", "tokenizers", "safetensors"}
    assert not rooms_imported(path) & {"model", "data", "train", "checkpoint", "pipeline"}


@pytest.mark.parametrize("path", [p for p in files() if room_of(p) == "model"], ids=str)
def test_the_model_touches_no_files(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & {"os", "io", "pathlib", "json"}


@pytest.mark.parametrize("path", [p for p in files() if room_of(p) in FROM_SCRATCH], ids=str)
def test_the_architecture_is_ours(path: Path) -> None:
    tree = ast.parse((PACKAGE / path).read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    ready_made = {n for n in used if n.startswith("Transformer") or n.startswith("MultiheadAtt")}
    assert not ready_made
    assert not {n.split(".")[0] for n in imports(path)} & {"transformers", "timm", "x_transformers"}
