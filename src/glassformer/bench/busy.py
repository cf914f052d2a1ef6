"""`bench busy`: speed of training beside other jobs, for several ways in which threads wait.

Threads that share each product of an update wait for each other at its end. One that spins
keeps its core, even from the thread that it waits for. How long OpenMP lets a thread spin
before it sleeps is an environment variable, read when torch is imported: each way of waiting has a
process of its own. They take turns, alone and beside jobs that keep the same cores busy; the others
wait for their turn and use no processor. `demo_beside` trains the demo beside such jobs.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from glassformer.bench.report import Report
from glassformer.callable_module import make_callable
from glassformer.errors import SettingsError, TrainingError
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick
from glassformer.openmp import SPINS, VARIABLES

WORKER = (sys.executable, "-P", "-m", "glassformer.bench.busy_worker")
JOB = (sys.executable, "-c", "while True: pass")
SPIN = "spin, OpenMP's own"
CHOSEN = f"spin {SPINS:,} times, then sleep"
PASSIVE = "sleep at once"
PROCESSES = "one process per core"
KEPT, COST = 0.60, 0.03  # of the fair share at least; of the speed alone at most
DEMO_BLEU = 95.0  # that the demo reaches beside the jobs, too


@dataclass(frozen=True)
class Way:
    """The environment variables for waiting threads, and the number of processes of a run."""

    variables: Mapping[str, str] = field(default_factory=dict)
    processes: int = 1


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement."""

    seconds: float = 6.0  # of each measurement
    rounds: int = 3  # measurements of each way alone, and as many beside the jobs
    cores: int = 2  # threads of a run in all, and cores that it shares with the jobs
    jobs: int = 2  # competing, of one thread each
    batch_tokens: int = 2_048

    @property
    def ways(self) -> dict[str, Way]:
        return {
            SPIN: Way(),
            CHOSEN: Way(VARIABLES),
            "spin 10,000 times, then sleep": Way({"GOMP_SPINCOUNT": "10000"}),
            PASSIVE: Way({"OMP_WAIT_POLICY": "PASSIVE"}),
            PROCESSES: Way(processes=self.cores),
        }

    @property
    def steps(self) -> int:
        return 2 * self.rounds * len(self.ways)

    @property
    def fair_share(self) -> float:
        """Share of the processor that as many threads get beside the jobs."""
        return self.cores / (self.cores + self.jobs)


def bench_busy(plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    """Measure each way of waiting alone and beside the jobs; the medians of the rounds count."""
    speeds = measured(plan, tick)
    base = speeds[SPIN][0]
    rows: list[Row] = [
        [name, round(alone), alone / base, round(busy), share(alone, busy, base, plan)]
        for name, (alone, busy) in speeds.items()
    ]
    title = (
        f"Training the demo's model: {plan.cores} threads in all on {plan.cores} cores, median of "
        f"{plan.rounds} × {plan.seconds:g} s, alone and beside {plan.jobs} busy jobs"
    )
    columns = ["threads wait by", "alone, tok/s", "÷ first", "beside, tok/s", "of fair share"]
    good = [str(row[0]) for row in rows if fits(float(row[2]), float(row[4]))]
    notes = [
        f"The fair share of {plan.cores} threads beside {plan.jobs} jobs is {plan.fair_share:.0%} "
        "of the speed alone: of the way's own or of the first row's, whichever is higher.",
        f"At least {KEPT:.0%} of it, for at most {COST:.0%} alone: {', '.join(good) or 'none'}.",
        f"Set by this version: {' '.join(f'{k}={v}' for k, v in VARIABLES.items())}.",
    ]
    return Report(command, [Table(title, columns, rows)], {}, notes)


def measured(plan: Plan, tick: Tick) -> dict[str, tuple[float, float]]:
    """Return the median speeds of each way, alone and beside the jobs."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in plan.ways}
    with confined(plan.cores), ExitStack() as stack:
        asked = {n: stack.enter_context(worker(way, plan)) for n, way in plan.ways.items()}
        for _ in range(plan.rounds):
            for name, ask in asked.items():
                found[name][0].append(ask(plan.seconds))
                tick()
            with jobs(plan.jobs):
                for name, ask in asked.items():
                    found[name][1].append(ask(plan.seconds))
                    tick()
    return {name: (median(alone), median(busy)) for name, (alone, busy) in found.items()}


def share(alone: float, busy: float, base: float, plan: Plan) -> float:
    """Return the speed beside the jobs over that of a fair share of the cores."""
    return busy / (max(alone, base) * plan.fair_share)


@contextmanager
def confined(cores: int) -> Iterator[None]:
    """Give this process, and those that it starts, so many cores and no other.

    On more cores the jobs would not compete with the run.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise SettingsError(
            "This system cannot confine a process to some cores.",
            "The jobs would run on other cores than the run that they are to disturb.",
            "Measure on Linux.",
        )
    allowed = os.sched_getaffinity(0)
    if len(allowed) < cores:
        raise SettingsError(
            f"There are {len(allowed)} cores, and {cores} were asked for.",
            "Each thread of the run has a core of its own while it is alone.",
            f"Use --threads {len(allowed)}.",
        )
    os.sched_setaffinity(0, sorted(allowed)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def demo_beside(plan: Plan) -> float:
    """Train `glassformer demo` beside the jobs; return its best validation BLEU."""
    from glassformer.train.log import read

    with TemporaryDirectory(prefix="glassformer-") as place:
        run = Path(place, "demo")
        command = [sys.executable, "-P", "-m", "glassformer", "demo", "--run", str(run)]
        with confined(plan.cores), jobs(plan.jobs):
            done = subprocess.run(
                [*command, f"train.threads={plan.cores}"],
                stdout=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                check=False,
            )
        scores = [
            record["valid_bleu"] for record in read(run / "log.jsonl") if "valid_bleu" in record
        ]
    if done.returncode or not scores:
        raise TrainingError(
            f"The demo ended with {done.returncode}, after {len(scores)} validations.",
            "Its own error is above.",
            "Run glassformer doctor, then this again.",
        )
    return float(max(scores))


def demo_note(score: float, plan: Plan) -> str:
    """Return the line that a report has about the demo."""
    verdict = "reached" if score >= DEMO_BLEU else "missed"
    return (
        f"The demo beside {plan.jobs} busy jobs: validation BLEU {score:.1f}, of "
        f"{DEMO_BLEU:g} to reach: {verdict}."
    )


def fits(alone: float, share: float) -> bool:
    """Return whether a way of waiting keeps enough of its share and costs little alone."""
    return share >= KEPT and alone >= 1 - COST


@contextmanager
def worker(way: Way, plan: Plan) -> Iterator["Asked"]:
    """Start the processes of a run, and end them with the block."""
    size = way.processes
    arguments = (str(plan.cores // size), str(plan.batch_tokens))
    own = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "RANK", "WORLD_SIZE", "OMP_NUM_THREADS")
    plain = {name: value for name, value in os.environ.items() if name not in own}
    plain |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **way.variables}
    shared = {} if size == 1 else {"WORLD_SIZE": str(size), **_meeting_place()}
    with ExitStack() as stack:
        started: list[subprocess.Popen[str]] = []
        for rank in range(size):
            numbered = {} if size == 1 else {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            process = subprocess.Popen(
                [*WORKER, *arguments],
                env=plain | shared | numbered,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)  # at its end: closes the pipes and waits
            stack.callback(process.kill)
            started.append(process)
        yield Asked(started[0])


class Asked:
    """The first process of a run: called with seconds, it returns tokens per second."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __call__(self, seconds: float) -> float:
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None and told is not None, "both are pipes"
        asked.write(f"{seconds}\n")
        asked.flush()
        answer = told.readline()
        if not answer:
            raise TrainingError(
                f"The process that trains ended with {self._process.wait()}.",
                "Its own error is above.",
                "Run glassformer doctor, then this again.",
            )
        return float(answer)


def _meeting_place() -> dict[str, str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}


@contextmanager
def jobs(count: int) -> Iterator[None]:
    """Keep `count` cores busy, with one process each, for the length of the block."""
    with ExitStack() as stack:
        for _ in range(count):
            job = subprocess.Popen(JOB)
            stack.callback(job.wait)
            stack.callback(job.kill)
        yield


make_callable(__name__, "glassformer.api.bench", "busy")
