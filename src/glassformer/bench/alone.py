"""A contender in a process of its own, which measures its own time.

Each library brings its own copy of OpenMP. In one process the idle threads of one slow the other
down, to half its speed and less; in two they take turns fairly.
"""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


class Alone:
    """`load(*arguments)` in a new process: a call is sent there, and its result comes back."""

    def __init__(self, load: Callable[..., Any], *arguments: Any) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, load, arguments))
        self._process.start()
        theirs.close()  # so that reading ends when the process does
        self._pipe.recv()  # it is loaded

    def __call__(self, *arguments: Any) -> Any:
        self._pipe.send(arguments)
        return self._pipe.recv()

    def close(self) -> None:
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection, load: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    contender = load(*arguments)
    pipe.send("loaded")
    while True:
        try:
            call = pipe.recv()
        except EOFError:  # the other side has closed
            return
        pipe.send(contender(*call))
