"""A user's own text as files of a run: Python lists, and tables whose columns are guessed."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from glassformer.api.plan import MINUTES, Counts, plan, valid_count
from glassformer.config import RunSettings
from glassformer.data import own
from glassformer.data.languages import guess
from glassformer.errors import InputError

Example = str | Sequence[str | int]  # a text, or (source, target), or (text, label)
Task = Literal["translate", "classify"]
KINDS: dict[str, own.Kind] = {"translate": "translator", "classify": "classifier"}
SEED = 1  # of the random choice of validation examples
FEWEST = 20  # examples; with fewer there is no measurable learning

Rows = list[list[str | int]]


def with_lists(
    settings: RunSettings,
    data: Sequence[Example],
    valid: Sequence[Example] | None,
    folder: Path,
) -> tuple[RunSettings, dict[Path, str]]:
    """Return settings that read the lists from JSON files in `folder`, and those files."""
    kind = settings.model.kind
    columns = 2 if kind in ("translator", "classifier") else 1
    rows = [_row(example, columns, kind) for example in data]
    if valid is not None:
        held_out = [_row(example, columns, kind) for example in valid]
    else:
        share = own.HELD_OUT[kind == "translator"]
        count = min(settings.data.valid_examples, max(1, len(rows) // share))
        rows, held_out = own.hold_out(rows, count, SEED, 2 if kind == "translator" else 1)
    names = tuple(str(column) for column in range(1, columns + 1))
    return with_files(settings, rows, held_out, names, folder)


def with_files(
    settings: RunSettings,
    rows: Sequence[Sequence[Any]],
    held_out: Sequence[Sequence[Any]],
    columns: tuple[str, ...],
    folder: Path,
) -> tuple[RunSettings, dict[Path, str]]:
    """Return settings that read the rows from JSON files in `folder`, and those files.

    Numbered columns keep their numbers, so that the run reads other files of that layout.
    """
    if not rows or not held_out:
        raise InputError(
            f"There are {len(rows)} examples to train on and {len(held_out)} to validate on.",
            "A run needs at least one of each.",
            "Give more examples; `valid` is a list of its own.",
        )
    files = {folder / "train.jsonl": rows, folder / "valid.jsonl": held_out}
    train_file, valid_file = map(str, files)
    named = {"name": "files", "train": (train_file,), "valid": (valid_file,), "columns": columns}
    texts = {
        path: "".join(
            json.dumps(_record(row, columns), ensure_ascii=False) + "\n" for row in content
        )
        for path, content in files.items()
    }
    return settings.replace(data=named), texts


def _record(row: Sequence[Any], columns: tuple[str, ...]) -> dict[str, Any] | list[Any]:
    by_name = dict(zip(columns, row, strict=True))
    if not all(column.isdecimal() for column in columns):
        return by_name
    cells = {int(column): cell for column, cell in by_name.items()}
    return [cells.get(number, "") for number in range(1, max(cells) + 1)]


def _row(example: Example, columns: int, kind: str) -> list[str | int]:
    row: list[str | int] = [example] if isinstance(example, str) else list(example)
    if len(row) != columns or not all(isinstance(cell, str | int) for cell in row):
        wanted = {1: "a text", 2: "a pair of texts" if kind == "translator" else "(text, label)"}
        raise InputError(
            f"{example!r} is not an example for a {kind}.",
            f"Each is {wanted[columns]}.",
            "Give a list of such examples.",
        )
    return row


# Without a recipe


def own_run(
    data: str | Path | Sequence[Any],
    task: Task | None,
    *,
    columns: Sequence[str] = (),
    minutes: float | None = None,
    skip_bad: bool = False,
    changes: Mapping[str, Any] | None = None,
    folder: Path,
    notice: Callable[[str], None],
) -> tuple[RunSettings, dict[Path, str], str]:
    """Choose the settings for a file or a list.

    Return them, the files of the run, and one line that describes the choice.
    """
    paths = _paths(data)
    if paths:
        found = own.look(paths, KINDS[task] if task else None, columns)
        notice(str(found))
        rows, skipped = own.read_rows(found, skip_bad)
        if skipped:
            notice(f"skipped: {skipped}")
        kind, languages = found.kind, found.languages
        named = tuple(map(str, found.files.columns)) or ("1", "2")
    else:
        kind, rows = _of_list(data, task)
        first, second = (guess(str(row[side]) for row in rows[: own.SAMPLE]) for side in (0, 1))
        languages, named = (first, second if kind == "translator" else first), ("1", "2")
    if len(rows) < FEWEST:
        raise InputError(
            f"There are {len(rows)} examples.",
            f"A run needs at least {FEWEST}; thousands are usual.",
            "Give more of them.",
        )
    sides = 2 if kind == "translator" else 1
    train, valid = own.hold_out(rows, valid_count(kind, len(rows)), SEED, sides)
    dropped = len(rows) - len(train) - len(valid)
    twins = f", {dropped:,} left out that share a text with these" if dropped else ""
    notice(f"set aside to validate on: {len(valid):,} of {len(rows):,}, drawn at random{twins}")
    chosen = plan(kind, Counts.of(train, sides), languages, minutes or MINUTES)
    notice(f"chosen: {chosen.line}")
    settings, texts = with_files(chosen.settings, train, valid, named, folder / "data")
    settings = settings.replace(data={"valid_examples": len(valid)})
    return settings.replace(**(changes or {})), texts, chosen.line


def _paths(data: str | Path | Sequence[Any]) -> tuple[str | Path, ...]:
    """Return the files that `data` names; none if it is a list of examples."""
    if isinstance(data, str | Path):
        return (data,)
    is_files = isinstance(data, tuple) and all(isinstance(path, Path) for path in data)
    return tuple(data) if is_files else ()


def _of_list(data: Any, task: Task | None) -> tuple[own.Kind, list[Any]]:
    if task is None:
        seconds = [str(row[1]) for row in data if not isinstance(row, str) and len(row) == 2]
        kind: own.Kind = "classifier" if own.is_label(seconds) else "translator"
    else:
        kind = KINDS[task]
    return kind, [_row(example, 2, kind) for example in data]
