"""`bench start`: how long the command line takes, measured from outside the process."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from glassformer.bench.report import Report
from glassformer.callable_module import make_callable
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick

SENTENCE = "A man is riding a red bicycle."
MIB = 2**20
# A small process starts the command and waits for it: the peak that the system reports of a
# process begins with that of the process that started it. ru_maxrss is in KiB, on macOS in bytes.
LAUNCHER = """
import os, sys, time
begin = time.perf_counter()
null = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
                       file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(child, 0)
unit = 1 if sys.platform == "darwin" else 1024
print(time.perf_counter() - begin, usage.ru_maxrss * unit, os.waitstatus_to_exitcode(status))
"""


class Started(NamedTuple):
    """One run of a command."""

    seconds: float
    peak: int  # bytes


@dataclass(frozen=True)
class Plan:
    times: int = 10
    model: str | None = None  # None: the bundled translator

    @property
    def steps(self) -> int:
        return 2 * self.times + 2


def bench_start(plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    """Time `translate` and `--help` with a warm cache, and `translate` with an empty one."""
    translate = ["translate", SENTENCE, *(["--model", plan.model] if plan.model else [])]
    launch(translate)  # compile what is not yet in the cache
    tick()
    with TemporaryDirectory() as cache:
        cold = launch(translate, {"GLASSFORMER_CACHE": cache})
        tick()
    warm, help_ = [], []
    for _ in range(plan.times):
        warm.append(launch(translate))
        tick()
        help_.append(launch(["--help"]))
        tick()
    shown = f'glassformer translate "{SENTENCE}"'
    rows = [
        _row(shown, warm),
        _row("glassformer --help", help_),
        _row("translate, nothing compiled yet", [cold]),
    ]
    columns = ["command", "runs", "median s", "slowest s", "peak MiB"]
    compiling = cold.seconds - median(run.seconds for run in warm)
    notes = [
        "Seconds of the whole process and its peak memory, measured from outside.",
        f"Compiling everything that one translation needs took {compiling:.1f} s.",
    ]
    return Report(command, [Table("Start-up", columns, rows)], notes=notes)


def _row(name: str, runs: Sequence[Started]) -> Row:
    seconds = [run.seconds for run in runs]
    peak = median(run.peak for run in runs)
    return [name, len(runs), median(seconds), max(seconds), round(peak / MIB)]


def launch(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Started:
    """Run the command line once."""
    command = [sys.executable, "-m", "glassformer", *arguments]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *command],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, peak, status = done.stdout.split()
    if int(status):
        raise RuntimeError(f"{' '.join(command)} ended with {status}:\n{done.stderr}")
    return Started(float(seconds), int(peak))


make_callable(__name__, "glassformer.api.bench", "start")
