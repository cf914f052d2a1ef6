"""The models that come with the package: a folder each, a checkpoint with its card.

    NAME/   model.safetensors   settings.toml   *.spm   manifest.json   CARD.md

A card is Markdown. Its heading says what the model does, the table under it has the best score and
the licence; sections on data, scores and limits follow.
"""

import os
import re
from pathlib import Path

from glassformer.config import RunSettings
from glassformer.errors import CheckpointError, near_name

ROOT = Path(__file__).parent
TRANSLATOR, CLASSIFIER = "en-fr", "sentiment"  # what a verb uses where no model is named
CARD, SETTINGS, MANIFEST = "CARD.md", "settings.toml", "manifest.json"
FACT = re.compile(r"^\| ([^|]*?) \| ([^|]*?) \|$", re.MULTILINE)  # a row of a table of two columns


def names() -> list[str]:
    return sorted(path.parent.name for path in ROOT.glob(f"*/{MANIFEST}"))


def imported() -> Path:
    """The folder of imported models, in the user's cache; $GLASSFORMER_CACHE names another."""
    named = os.environ.get("GLASSFORMER_CACHE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(named) if named else cache / "glassformer") / "models"


def imported_names() -> list[str]:
    return sorted(path.parent.name for path in imported().glob(f"*/{MANIFEST}"))


def resolve(model: str | Path) -> Path:
    """The folder that a user means: a path if it is there, or a bundled or imported model."""
    try:
        is_there = Path(model).exists()
    except OSError:  # a name too long for a file is none
        is_there = False
    if is_there:
        return Path(model)
    name = str(model)
    return imported() / name if name in imported_names() else folder(name)


def folder(name: str) -> Path:
    """Where a bundled model lies, whatever else may be called so here."""
    if name not in names():
        raise _unknown(name)
    return ROOT / name


def card(name: str) -> str:
    return (folder(name) / CARD).read_text("utf-8")


def title(name: str) -> str:
    """Return the purpose of a model: the heading of its card."""
    return card(name).partition("\n")[0].removeprefix("#").strip()


def facts(name: str) -> dict[str, str]:
    """Return the rows of the first table of the card: score and licence."""
    rows = FACT.findall(card(name).partition("\n## ")[0])
    return {key: value for key, value in rows if key and key[0] not in ":-"}


def direction(name: str) -> str:
    """Return the languages of a translator, "en → fr" or "en ⇄ fr"; nothing of other models."""
    saved = settings(name)
    arrow = "⇄" if saved.data.directions == "both" else "→"
    languages = f"{saved.data.source_language} {arrow} {saved.data.target_language}"
    return languages if saved.model.kind == "translator" else ""


def settings(name: str) -> RunSettings:
    return RunSettings.from_toml((folder(name) / SETTINGS).read_text("utf-8"))


def size(name: str) -> int:
    """Bytes of all its files."""
    return sum(file.stat().st_size for file in folder(name).iterdir())


def _unknown(name: str) -> CheckpointError:
    there, own, is_path = names(), imported_names(), Path(name).name != name
    found = None if is_path else near_name(name, there)
    near = "" if found is None else f"Did you mean {found!r}? "
    return CheckpointError(
        f"There is no model {name!r}.",
        "A model is the folder of a run or of a checkpoint, or comes with Glassformer: "
        f"{', '.join(there) or 'with this copy none does'}. Imported: {', '.join(own) or 'none'}.",
        f"{near}A run is named by its folder: `glassformer demo` makes runs/demo in minutes.",
    )
