"""Campaign `clock`: the system's time jumps by years, forwards and backwards, during training.

The clock of Python and the times of files jump; the system's own clock is left alone. Budgets and
rates must follow a monotonic clock, and a lock must not depend on times.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from pathlib import Path
from random import Random
from signal import SIGTERM, raise_signal
from typing import Any, Self

from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.bench.faults.kills import TINY, differences
from glassformer.checkpoint.sole_writer import LOCK, Owner, sole_writer
from glassformer.config import RunSettings
from glassformer.data.prepare import prepare
from glassformer.errors import CheckpointError
from glassformer.train.distributed import ALONE
from glassformer.train.log import Record
from glassformer.train.loop import train
from glassformer.train.start import start

YEAR = 365 * 86_400.0  # s
SHORT = TINY.replace(train={"max_steps": 12})
BUDGET = 0.3  # s of a run that time ends


def begin(folder: Path) -> Trial:
    """Train, resume, keep to a budget and take locks while the clock jumps."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    reference = folder / "reference"
    carry_out(SHORT, reference)

    def trial(seed: int) -> Result:
        random, place = Random(seed), folder / f"run-{seed}"
        with jumping_clock(random):
            problem = CASES[seed % len(CASES)](random, place, reference)
        return Result(lost=(problem,) if problem else ())

    return trial


@contextmanager
def jumping_clock(random: Random) -> Iterator[None]:
    """Let every reading of the time of day be another one, up to 30 years off."""
    locks: Any = import_module(sole_writer.__module__)  # its package has the function by that name
    real = time.time, time.time_ns, locks.datetime

    def now() -> float:
        return real[0]() + random.uniform(-30, 30) * YEAR

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(now(), tz)

    time.time, time.time_ns = now, lambda: int(now() * 1e9)
    locks.datetime = Jumping
    try:
        yield
    finally:
        time.time, time.time_ns, locks.datetime = real


def carry_out(settings: RunSettings, folder: Path, resume: bool = False, stop: int = 0) -> str:
    """Train in this process; with `stop`, SIGTERM ends it after that update."""

    def report(record: Record) -> None:
        if record["step"] == stop:
            raise_signal(SIGTERM)

    data = prepare(settings, threads=1)
    with sole_writer(folder, lambda notice: None):
        return train(start(data, folder, ALONE, resume, lambda notice: None), report=report)


def interrupted(random: Random, folder: Path, reference: Path) -> str | None:
    """Stop a run, give its files other times, and resume it: the same bits."""
    carry_out(SHORT, folder, stop=random.randrange(1, 9))  # what it saves is not kept to the end
    for path in folder.rglob("*"):
        when = time.time()
        os.utime(path, (when, when), follow_symlinks=False)
    carry_out(SHORT, folder, resume=True)
    return next(differences(reference, folder), None)


def within_budget(random: Random, folder: Path, reference: Path) -> str | None:
    """An hour's budget is not used up by a jump of years."""
    reason = carry_out(SHORT.replace(train={"max_minutes": 60.0}), folder)
    return None if reason == f"{SHORT.train.max_steps} updates" else f"it ended with {reason}"


def beyond_budget(random: Random, folder: Path, reference: Path) -> str | None:
    """A budget ends the run in time although the clock goes back by years."""
    settings = SHORT.replace(
        train={"max_steps": 10**6, "max_minutes": BUDGET / 60, "validate_every": 10**6}
    )
    began = time.monotonic()
    reason = carry_out(settings, folder)
    spent = time.monotonic() - began
    if "minutes" not in reason:
        return f"it ended with {reason}"
    return f"{spent:.0f} s for a budget of {BUDGET} s" if spent > LATE else None


def locked(random: Random, folder: Path, reference: Path) -> str | None:
    """A held lock is refused and that of a dead process is taken, whatever times they have."""
    with sole_writer(folder, lambda notice: None):
        os.utime(folder / LOCK, (time.time(),) * 2)
        try:
            with sole_writer(folder, lambda notice: None):
                return "a second writer was let in"
        except CheckpointError:
            pass
    folder.mkdir(exist_ok=True)
    left = Owner.this_process()._replace(since=str(datetime.fromtimestamp(time.time(), UTC)))
    (folder / LOCK).write_text(json.dumps(left._asdict()))
    os.utime(folder / LOCK, (time.time(),) * 2)
    with sole_writer(folder, lambda notice: None):
        return None


CASES = (interrupted, within_budget, beyond_budget, locked)
LATE = 30.0  # s: the budget, preparation, and the last save on a busy machine
CAMPAIGN = Campaign("clock", begin, trials=40, quick=8, seconds=120.0)
