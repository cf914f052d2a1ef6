"""Callbacks: objects that receive the records of a run, for external loggers.

A callback is any object with some of these methods; `gf.train(..., callbacks=[mine])` calls them in
the process that writes the log. An error in one ends the run.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from glassformer.config import RunSettings
from glassformer.errors import InputError
from glassformer.train.log import Record


@runtime_checkable
class OnStart(Protocol):
    def on_start(self, settings: RunSettings, folder: Path) -> None:
        """Receive the settings and the folder of a run that starts or resumes."""


@runtime_checkable
class OnRecord(Protocol):
    def on_record(self, record: Record) -> None:
        """Receive a record of log.jsonl: `step`, and `train_loss` or `valid_loss` and more."""


@runtime_checkable
class OnEnd(Protocol):
    def on_end(self, reason: str) -> None:
        """Receive the reason why the run ended."""


Callback = OnStart | OnRecord | OnEnd


def check(callbacks: Sequence[object]) -> None:
    """Refuse an object that would never be called."""
    for one in callbacks:
        if not isinstance(one, OnStart | OnRecord | OnEnd):
            raise InputError(
                f"{one!r} is not a callback.",
                "A callback has on_start(settings, folder), on_record(record) or on_end(reason).",
                "Give it one of these methods.",
            )


def reporting(
    callbacks: Sequence[Callback], report: Callable[[Record], None]
) -> Callable[[Record], None]:
    """Return a function that gives each record to `report` and to the callbacks."""
    takers = [one.on_record for one in callbacks if isinstance(one, OnRecord)]

    def tell(record: Record) -> None:
        for take in (report, *takers):
            take(record)

    return tell
