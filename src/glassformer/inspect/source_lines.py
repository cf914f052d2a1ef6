"""Lines of this package's source: a function, and which of its lines matter."""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import glassformer
from glassformer.errors import InputError

ROOT = Path(glassformer.__file__).parent


@dataclass(frozen=True)
class Code:
    """The text of a function."""

    path: str  # below the package
    name: str
    first: int  # line number in the file
    text: str
    marked: tuple[int, ...]  # line numbers


@cache
def lines_of(function: Callable[..., Any], *patterns: str) -> Code:
    """Return a function of this package; marked are its lines that contain one of `patterns`.

    A pattern that no line of code contains is an error: what it pointed at has moved.
    """
    plain = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(plain)
    text = dedent("".join(lines)).rstrip("\n")
    code = {n: line for n, line in enumerate(text.splitlines(), first) if n >= first + _head(text)}
    for pattern in patterns:
        if not any(pattern in line for line in code.values()):
            raise InputError(
                f"{function.__qualname__} has no line with {pattern!r}.",
                "The explorer marks the lines that compute a stage.",
                "Name a line that it has.",
            )
    marked = [n for n, line in code.items() if any(pattern in line for pattern in patterns)]
    path = Path(inspect.getsourcefile(plain) or "").relative_to(ROOT)
    return Code(path.as_posix(), function.__qualname__, first, text, tuple(marked))


def _head(text: str) -> int:
    """Return how many lines the signature and the docstring of a function take."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    begin = function.body[0].lineno - 1
    has_docstring = ast.get_docstring(function) is not None
    return (function.body[0].end_lineno or 0) if has_docstring else begin
