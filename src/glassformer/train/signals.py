"""Ctrl-C and SIGTERM: the first one saves and ends the loop, a second one ends it immediately."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequested(Exception):  # noqa: N818  (a request, not an error)
    """A signal came during work that can be interrupted without loss."""


class Signals:
    """The number of the first signal, or None."""

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
        """Raise `StopRequested` on a signal inside the block, for work that can be repeated."""
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
