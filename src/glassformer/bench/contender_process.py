"""A contender in a process of its own, which measures its own time.

Each library brings its own copy of OpenMP. In one process the idle threads of one slow the other
down, to half its speed and less; in two they take turns fairly.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Self


class ContenderProcess:
    """`load(*arguments)` in a new process: a call is sent there, and its result comes back."""

    def __init__(self, load: Callable[..., Any], *arguments: Any) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, load, arguments))
        with ExitStack() as stack:
            with _interrupts_blocked():
                self._process.start()
                stack.callback(self.close)  # where loading fails or is interrupted
            theirs.close()  # so that reading ends when the process does
            self._pipe.recv()  # it is loaded
            stack.pop_all()

    def __call__(self, *arguments: Any, timeout: float | None = None) -> Any:
        """Return the result of a call; raise after `timeout` seconds, or if the process ends."""
        self._pipe.send(arguments)
        if not self._pipe.poll(timeout):
            raise TimeoutError(f"no result after {timeout} s")
        return self._pipe.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, even in the middle of a call."""
        self._pipe.close()
        self._process.kill()  # SIGTERM may be handled there
        self._process.join()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that never receive Ctrl-C, where signals can be blocked (not on Windows).

    A terminal sends SIGINT to every process of a command. Only the command itself handles it, and
    closes the others; each of them would print a traceback. Here it is delivered at the end.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # a process of multiprocessing; its start unblocks signals
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(pipe: Connection, load: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    contender = load(*arguments)
    pipe.send("loaded")
    while True:
        try:
            call = pipe.recv()
        except EOFError:  # the other side has closed
            return
        pipe.send(contender(*call))
