"""Errors for users: what happened, why, and what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches


class GlassformerError(Exception):
    """One short block of three lines; `cli` prints it and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy)
        self.what, self.why, self.remedy = what, why, remedy

    def __str__(self) -> str:
        return f"{self.what}\n  why:  {self.why}\n  next: {self.remedy}"


class InputError(GlassformerError, ValueError):
    """A tensor or an argument that a module cannot honour."""

    exit_code = 2


class SettingsError(GlassformerError, ValueError):
    """Settings that are unknown, malformed or do not go together."""

    exit_code = 2


class UnknownVariantError(SettingsError):
    """A setting whose value is neither built in nor registered."""


class DataError(GlassformerError, ValueError):
    """Text that cannot be read, found, fetched or understood."""

    exit_code = 3


class CheckpointError(GlassformerError, ValueError):
    """A checkpoint that is damaged, incomplete, of another model, or cannot be written."""

    exit_code = 4


class TrainingError(GlassformerError, ArithmeticError):
    """A training run that cannot go on, such as one whose loss is no longer a number."""


class MissingPackageError(GlassformerError, ImportError):
    """An optional package that a command needs and that is not installed."""

    exit_code = 2

    def __init__(self, package: str, needed_for: str, extra: str) -> None:
        super().__init__(
            f"The package {package!r} is not installed.",
            f"{needed_for} needs it. It comes with the extra {extra!r}.",
            f"pip install 'glassformer[{extra}]'",
        )


NEAR = 0.6  # similarity of two words, 0 to 1, from which one may be the other misspelt


def near_name(name: str, names: Iterable[str]) -> str | None:
    """Return the valid name that a misspelt one most likely means, or None if none is near."""
    return next(iter(get_close_matches(name, list(names), n=1, cutoff=NEAR)), None)


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return a suggestion: the nearest valid name, or `otherwise` if none is near."""
    found = near_name(name, names)
    return otherwise if found is None else f"Did you mean {found!r}?"


def divisors(n: int) -> list[int]:
    """The valid numbers of heads for a width of `n`: those up to 1,024, which no model exceeds."""
    return [i for i in range(1, min(n, 1_024) + 1) if n % i == 0]
