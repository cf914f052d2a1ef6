"""`bench busy`: shares of the processor, the jobs beside, and a worker that trains."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.bench import busy, busy_worker
from glassformer.bench.busy import (
    PASSIVE,
    PROCESSES,
    SPIN,
    Plan,
    bench_busy,
    confined,
    demo_beside,
    demo_note,
    fits,
    jobs,
    worker,
)
from glassformer.errors import SettingsError, TrainingError
from glassformer.train.distributed import ALONE


def test_shares_are_of_the_speed_alone_and_the_threads_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {SPIN: (1000, 100), PASSIVE: (980, 400), PROCESSES: (1250, 500)}
    asked: list[str] = []
    running: list[int] = []

    @contextmanager
    def fake(way: Any, plan: Plan) -> Iterator[Any]:
        name = next(name for name, one in plan.ways.items() if one == way)

        def ask(seconds: float) -> float:
            asked.append(name)
            return told.get(name, (500, 500))[len(running)]

        yield ask

    @contextmanager
    def beside(count: int) -> Iterator[None]:
        running.append(count)
        yield
        running.pop()

    monkeypatch.setattr(busy, "worker", fake)
    monkeypatch.setattr(busy, "jobs", beside)
    monkeypatch.setattr(busy, "confined", lambda cores: nullcontext())
    ticks: list[int] = []
    plan = Plan()
    report = bench_busy(plan, "command", lambda: ticks.append(1))
    rows = {row[0]: row[1:] for row in report.tables[0].rows}
    assert plan.fair_share == 0.5 and len(ticks) == plan.steps
    assert rows[SPIN] == [1000, 1.0, 100, 0.2] and rows[PASSIVE] == [980, 0.98, 400, 0.8]
    assert rows[PROCESSES] == [1250, 1.25, 500, 0.8], "of its own share, which is larger"
    assert f"at most 3% alone: {PASSIVE}, {PROCESSES}." in report.notes[1]
    names = [*plan.ways]
    assert asked == names * (2 * plan.rounds), "the ways take turns, alone and beside"


def test_what_fits_keeps_its_share_and_costs_little_alone() -> None:
    assert fits(0.97, 0.6)
    assert not fits(0.96, 0.9) and not fits(1.0, 0.59)


def test_jobs_run_inside_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    popen = busy.subprocess.Popen
    monkeypatch.setattr(busy, "JOB", (sys.executable, "-c", "import time; time.sleep(60)"))
    monkeypatch.setattr(
        busy.subprocess, "Popen", lambda *args: started.append(popen(*args)) or started[-1]
    )
    with jobs(2):
        assert [job.poll() for job in started] == [None, None]
    assert all(job.returncode is not None for job in started)


def test_the_run_and_the_jobs_share_the_same_cores() -> None:
    before = os.sched_getaffinity(0)
    with confined(1):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(SettingsError, match="cores, and 9999 were asked for"), confined(9999):
        pass


@pytest.mark.parametrize(("score", "verdict"), [(95.0, "reached"), (94.9, "missed")])
def test_the_demo_beside_the_jobs_is_told_by_its_bleu(
    monkeypatch: pytest.MonkeyPatch, score: float, verdict: str
) -> None:
    def run(command: list[str], **options: Any) -> SimpleNamespace:
        folder = Path(command[command.index("--run") + 1])
        folder.mkdir()
        scores = (("valid_bleu", 40.0), ("train_loss", 1.0), ("valid_bleu", score))
        records = [{"step": i, name: x} for i, (name, x) in enumerate(scores)]
        (folder / "log.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(busy, "JOB", (sys.executable, "-c", "import time; time.sleep(60)"))
    monkeypatch.setattr(busy.subprocess, "run", run)
    plan = Plan(cores=1)
    assert demo_note(demo_beside(plan), plan).endswith(f"of 95 to reach: {verdict}.")
    monkeypatch.setattr(busy.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    with pytest.raises(TrainingError, match="ended with 1, after 0 validations"):
        demo_beside(plan)


def test_a_worker_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.stdin.readline(); sys.exit(3)"
    monkeypatch.setattr(busy, "WORKER", (sys.executable, "-c", code))
    with worker(Plan().ways[SPIN], Plan()) as ask, pytest.raises(TrainingError, match="with 3"):
        ask(0.1)


def test_a_worker_trains_as_long_as_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "argv", ["busy_worker", "1", "64"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.01\n"))
    busy_worker.main()
    (speed,) = capsys.readouterr().out.split()
    assert float(speed) > 0
    made = busy_worker.Worker(ALONE, 64)
    assert made.update() == made.batch.n_labels > 0
