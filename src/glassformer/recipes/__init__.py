"""The recipes of the package: settings of runs worth repeating, by name."""

import re
from importlib.resources import files
from typing import Any


def names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if _is(file))


def text(name: str) -> bytes:
    """Return a recipe as TOML."""
    content: bytes = (_folder() / f"{name}.toml").read_bytes()
    return content


def about(name: str) -> str:
    """Return what a recipe trains, by the first clause of its comment."""
    comment = []
    for line in text(name).decode().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return re.split(r"(?<=[.?:])\s", " ".join(comment))[0].rstrip(".:")


def _folder() -> Any:
    return files("glassformer.recipes")


def _is(file: Any) -> bool:
    return bool(file.name.endswith(".toml"))
