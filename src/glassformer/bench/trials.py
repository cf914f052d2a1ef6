"""Folders of runs that a command trains: started, resumed, never mixed with other settings."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.checkpoint import RunFolder, one_clear_error
from glassformer.checkpoint.format import replace_text
from glassformer.config import RunSettings
from glassformer.errors import SettingsError

RECIPE, OUTCOME = "trial.toml", "outcome.json"  # beside the checkpoints and the log


def claim(folder: Path, settings: RunSettings) -> bool:
    """Write the settings of a run to its folder; refuse a folder of a run with other settings.

    Return whether there is a checkpoint to resume from.
    """
    check_claim(folder, settings)
    with one_clear_error(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    _write(folder / RECIPE, settings.to_toml())
    return bool(RunFolder(folder).steps())


def check_claim(folder: Path, settings: RunSettings) -> None:
    """Refuse a folder that holds a run with other settings; write nothing."""
    path = folder / RECIPE
    if path.is_file():
        before = RunSettings.from_toml(path.read_bytes())
        if before != settings:
            changed = ", ".join(differences(before.model_dump(), settings.model_dump()))
            raise SettingsError(
                f"{folder} holds a run with other settings: {changed}.",
                "Resuming it would mix the two.",
                "Name another folder, remove this one, or restore the settings.",
            )
    elif RunFolder(folder).steps():
        raise SettingsError(
            f"{folder} holds a run of another command.",
            f"It has no {RECIPE} with its settings.",
            "Name another folder.",
        )


def differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name in before:
        old, new, path = before[name], now[name], f"{prefix}{name}"
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differences(old, new, f"{path}.")
        elif old != new:
            yield f"{path} = {old!r}, now {new!r}"


def conclude(folder: Path, error: str | None) -> None:
    """Record that a run is over, with the error that ended it, if any."""
    _write(folder / OUTCOME, json.dumps({"error": error}) + "\n")


def is_over(folder: Path) -> bool:
    return (folder / OUTCOME).is_file()


def error_of(folder: Path) -> str | None:
    """Return the error that ended a run, if any."""
    error: str | None = json.loads((folder / OUTCOME).read_text())["error"]
    return error


def _write(path: Path, content: str) -> None:
    """Write a file atomically: a command that is killed can be repeated."""
    with one_clear_error(path.name):
        replace_text(path, content)
