"""Ctrl-C and SIGTERM: the first asks the loop to save and end, the second ends it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequested(Exception):  # noqa: N818  (a request, not an error)
    """A signal came while nothing is lost by stopping on the spot."""


class Signals:
    """The number of the signal that came first, if one has."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._at_once = False

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number
        if self._at_once:
            raise StopRequested

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside the block a signal raises `StopRequested`: for work that can be done again."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False


@contextmanager
def stop_signals() -> Iterator[Signals]:
    signals = Signals()
    before = {s: signal.signal(s, signals.note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
