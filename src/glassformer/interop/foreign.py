"""Files of other libraries: their tensors by name, their configuration, and what does not fit."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import CheckpointError

Array = NDArray[Any]
Shape = tuple[int, ...]
MAX_JSON = 1 << 26  # bytes of a configuration or a tokenizer
MAX_WIDTH = 1 << 20  # of any size in a configuration
MAX_LAYERS = 1 << 10


def refused(what: str, why: str, remedy: str = "") -> CheckpointError:
    known = "Import a model of a known architecture: docs/interop.md lists them."
    return CheckpointError(what, why, remedy or known)


def damaged(path: Path, why: str) -> CheckpointError:
    return refused(
        f"{path.name} cannot be read: {why}.",
        f"Its {path.stat().st_size:,} bytes are not a whole file of this format.",
        "Copy or download it again.",
    )


class Tensors:
    """Tensors of a file by name. Each is asked for by shape, and all must be asked for."""

    def __init__(
        self, origin: str, shapes: Mapping[str, Shape], read: Callable[[str], Array]
    ) -> None:
        self.origin, self.shapes, self._read = origin, shapes, read
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.shapes

    def take(self, name: str, *shape: int) -> NDArray[np.float32]:
        """Return a tensor in fp32; refuse one that is absent or of another shape."""
        given = self.shapes.get(name)
        if given != shape:
            raise refused(
                f"{self.origin}: {name} is {'absent' if given is None else given}.",
                f"The model's configuration asks for {shape}.",
                "Import a whole model; its configuration and its weights belong together.",
            )
        self.taken.add(name)
        return np.asarray(self._read(name), np.float32)

    def stacked(self, names: Iterable[str], *shape: int) -> NDArray[np.float32]:
        """Return several tensors of one shape, one below the other."""
        return np.concatenate([self.take(name, *shape) for name in names])

    def ignore(self, *names: str) -> None:
        """Pass over tensors that have no part in what the model computes here."""
        self.taken.update(names)

    def finish(self) -> None:
        """Refuse tensors that were not asked for: the model computes something else with them."""
        if rest := sorted(self.shapes.keys() - self.taken):
            raise refused(
                f"{self.origin} has {rest[0]}, for which this architecture has no place.",
                f"{len(rest)} of its {len(self.shapes)} tensors would be left out: "
                f"{', '.join(rest[:4])}{', …' if len(rest) > 4 else ''}.",
            )


class Config:
    """A configuration: values by key, each checked when it is asked for."""

    def __init__(self, origin: str, values: Mapping[str, Any]) -> None:
        self.origin, self.values = origin, values

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def count(self, key: str, default: int | None = None, most: int = MAX_WIDTH) -> int:
        value = self._get(key, default)
        if type(value) is not int or not 1 <= value <= most:
            raise self._wrong(key, value, f"It must be a number from 1 to {most:,}.")
        return value

    def identity(self, key: str, default: int | None = None) -> int:
        """Return the id of a token."""
        value = self._get(key, default)
        value = value[0] if isinstance(value, list) and value else value
        if type(value) is not int or not -1 <= value < MAX_WIDTH * 10:
            raise self._wrong(key, value, "It must be the id of a token.")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if not isinstance(value, int | float) or not 0 < value < 1e12:
            raise self._wrong(key, value, "It must be a positive number.")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "It must be true or false.")
        return value

    def choice(self, key: str, choices: Mapping[str, str], default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str) or value not in choices:
            raise self._wrong(key, value, f"Glassformer has {', '.join(choices)}.")
        return choices[value]

    def require(self, key: str, wanted: Any, default: Any = None) -> None:
        """Refuse a value that asks for an architecture that is missing here."""
        value = self.values.get(key, default)
        value = default if value is None else value
        if value != wanted:
            raise self._wrong(key, value, f"Glassformer computes it as {wanted!r} only.")

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def _wrong(self, key: str, value: object, rule: str) -> CheckpointError:
        shown = "absent" if value is None else repr(value)[:80]
        return refused(f"{self.origin}: {key} is {shown}.", rule)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    size = path.stat().st_size
    if size > MAX_JSON:
        raise damaged(path, f"it is longer than {MAX_JSON:,} bytes")
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"it is no JSON ({str(error)[:80]})") from None
    if not isinstance(values, dict):
        raise damaged(path, "it is no JSON object")
    return values
