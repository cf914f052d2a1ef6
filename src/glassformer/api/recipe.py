"""Settings of a run from a recipe, a run's folder, a preset or a mapping, and its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer import recipes
from glassformer.config import PRESETS, RunSettings
from glassformer.device import check_name
from glassformer.errors import SettingsError, near_name

RECIPE = "recipe.toml"  # in a run's folder: the settings it was started with
AnyRecipe = RunSettings | Mapping[str, Any] | str | Path


def settings_of(recipe: AnyRecipe, changes: Mapping[str, Any] | None = None) -> RunSettings:
    """Return the settings of a recipe, a run's folder, a preset or a mapping."""
    if isinstance(recipe, RunSettings):
        settings = recipe
    elif isinstance(recipe, Mapping):
        settings = RunSettings.of(**recipe)
    elif str(recipe) in recipes.names():
        settings = RunSettings.from_toml(recipes.text(str(recipe)))
    elif str(recipe) in PRESETS:
        settings = RunSettings(model=PRESETS[str(recipe)])
    else:
        settings = _read_recipe(Path(recipe))
    return settings.replace(**changes) if changes else settings


def _read_recipe(path: Path) -> RunSettings:
    file = path / RECIPE if path.is_dir() else path
    if not file.is_file():
        near = near_name(path.stem, recipes.names())
        raise SettingsError(
            f"There is no recipe {path}.",
            f"The recipes of the package are {', '.join(recipes.names())}; others are TOML files "
            "with the sections [model], [data], [train] and [search].",
            f"glassformer train {near}" if near else "glassformer recipes",
        )
    return RunSettings.from_toml(file.read_bytes())


def folder_of(recipe: object, settings: RunSettings) -> Path:
    """Return the default folder of a run: that of `recipe` if it is a run, else runs/NAME."""
    if isinstance(recipe, str | Path):
        return Path(recipe) if Path(recipe).is_dir() else Path("runs") / Path(recipe).stem
    return Path("runs") / settings.model.kind


def with_options(
    changes: Mapping[str, Any] | None, device: str | None, skip_bad: bool = False
) -> dict[str, Any]:
    """Return the changes, with the device and the treatment of bad rows if they are given."""
    changed = dict(changes or {})
    if device is not None:
        check_name(device)
        changed["train"] = {**changed.get("train", {}), "device": device}
    if skip_bad:
        changed["data"] = {**changed.get("data", {}), "skip_bad": True}
    return changed
