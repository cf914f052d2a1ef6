"""The runner of a campaign: trials in a process of its own, with limits of time and memory.

A trial whose process ends, by an unexpected exception or by the system, counts as a traceback. One
that exceeds its time limit counts as a hang. The next trial then starts in a new process.
"""

import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

from glassformer.bench.contender_process import ContenderProcess
from glassformer.errors import SettingsError, did_you_mean
from glassformer.machine import virtual_memory
from glassformer.measure import Tick

SHOWN = 300  # characters of a failure


class Result(NamedTuple):
    """The outcome of a trial: attempts, those that lost something, and figures to add up."""

    tried: int = 1
    lost: tuple[str, ...] = ()  # a description each
    hung: tuple[str, ...] = ()  # processes that the trial itself had to end
    figures: tuple[tuple[str, float], ...] = ()


Trial = Callable[[int], Result]  # of a seed


@dataclass(frozen=True)
class Campaign:
    """Trials of one kind of fault. `begin` prepares them in a new folder and a new process."""

    name: str
    begin: Callable[[Path], Trial]
    trials: int
    quick: int  # trials with --quick
    seconds: float  # that a trial may take
    memory: int | None = None  # bytes that a trial may take; None: no limit

    def seeds(self, quick: bool, seed: int) -> range:
        """Return a seed for each trial; another `seed` gives other ones."""
        first = seed * 1_000_000
        return range(first, first + (self.quick if quick else self.trials))


@dataclass
class Tally:
    """The count of a campaign."""

    name: str
    tried: int = 0
    lost: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def failures(self) -> list[str]:
        return [*self.lost, *self.tracebacks, *self.hangs]

    @property
    def held(self) -> int:
        return self.tried - len(self.failures)

    def add(self, seed: int, result: Result) -> None:
        self.tried += result.tried
        self.lost += [f"seed {seed}: {one[:SHOWN]}" for one in result.lost]
        self.hangs += [f"seed {seed}: {one[:SHOWN]}" for one in result.hung]
        self.figures.update(dict(result.figures))


def conduct(campaign: Campaign, seeds: range, tick: Tick = lambda: None) -> Tally:
    """Carry out the trials of a campaign and count their results."""
    tally, began = Tally(campaign.name), perf_counter()
    with TemporaryDirectory(prefix="glassformer-faults-") as place:
        left = iter(seeds)
        for number, seed in enumerate(left):
            folder = Path(place) / str(number)
            folder.mkdir()
            with ContenderProcess(_begin, campaign, folder) as process:
                for now in _from(seed, left):
                    if not _add_trial(tally, process, now, campaign.seconds, folder):
                        tick()
                        break
                    tick()
    tally.seconds = perf_counter() - began
    return tally


def _from(first: int, rest: Iterator[int]) -> Iterator[int]:
    yield first
    yield from rest


def _add_trial(
    tally: Tally, process: ContenderProcess, seed: int, seconds: float, folder: Path
) -> bool:
    """Count one trial; return whether its process is still alive."""
    try:
        tally.add(seed, process(seed, timeout=seconds))
    except TimeoutError:
        tally.tried += 1
        tally.hangs.append(f"seed {seed}: no end after {seconds:g} s")
        return False
    except (EOFError, ConnectionError):
        tally.tried += 1
        tally.tracebacks.append(f"seed {seed}: {_last_words(folder)}")
        return False
    return True


def _last_words(folder: Path) -> str:
    """Return the last line that a process wrote to standard error: that of a traceback."""
    lines = (folder / "stderr").read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "ended by a signal")[:SHOWN]


def _begin(campaign: Campaign, folder: Path) -> Trial:
    """Prepare the trials in this process; then keep its standard error, and bound its memory."""
    trial = campaign.begin(folder)
    os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT), 2)
    if campaign.memory is not None and (now := virtual_memory()) is not None:
        most = now + campaign.memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return partial(_silently, trial, folder / "stderr")


def _silently(trial: Trial, stderr: Path, seed: int) -> Result:
    """Carry out a trial with an empty file for standard error."""
    os.truncate(stderr, 0)
    os.lseek(2, 0, os.SEEK_SET)
    return trial(seed)


def chosen(campaigns: dict[str, Campaign], names: list[str]) -> list[Campaign]:
    """Return the campaigns of these names, or all of them."""
    for name in names:
        if name not in campaigns:
            raise SettingsError(
                f"There is no campaign {name!r}.",
                f"The campaigns are {', '.join(campaigns)}.",
                did_you_mean(name, campaigns, "Leave --campaign out for all of them."),
            )
    return [campaigns[name] for name in dict.fromkeys(names) or campaigns]
