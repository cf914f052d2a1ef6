"""Train in several processes of this machine, started by torch's elastic launcher.

Each process runs this module. The first one writes the result of the run, or the error, as JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from glassformer import errors
from glassformer.api.run import Job, in_this_process
from glassformer.config import RunSettings
from glassformer.errors import GlassformerError, TrainingError

GRACE = 600  # seconds a stopped process may take to validate and save before it is killed
SIGNALS = ("SIGINT", "SIGTERM")
JOB, OUTCOME = "job.json", "outcome.json"  # what the processes read, and the first one writes


def launch(job: Job) -> dict[str, Any]:
    """Start `train.processes` processes, wait for them, and return the result of the run."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with TemporaryDirectory(prefix="glassformer-") as place, _own_signals():
        outcome = Path(place, OUTCOME)
        Path(place, JOB).write_text(to_json(job), "utf-8")
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=job.settings.train.processes,
            run_id=f"glassformer-{os.getpid()}",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # any free port
            local_addr="localhost",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=place),
            shutdown_timeout=GRACE,
        )
        failure = ""
        try:
            elastic_launch(config, sys.executable)("-m", "glassformer.api.processes", place)
        except ChildFailedError as error:
            failure = f"Exit codes: {sorted({f.exitcode for f in error.failures.values()})}."
        except SignalException as error:
            failure = f"It got {error.sigval.name}."
        if outcome.is_file():
            return _read(outcome)
    raise TrainingError(
        f"A training process ended without a result. {failure}",
        "It was killed, or memory ran out: each process holds the model and its batches.",
        "Use fewer: train.processes=1; or continue from the last checkpoint with --resume.",
    )


def _read(outcome: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(outcome.read_text("utf-8"))
    if error := found.pop("error", None):
        kind = getattr(errors, error["kind"])
        raised: GlassformerError = kind.__new__(kind)
        GlassformerError.__init__(raised, error["what"], error["why"], error["remedy"])
        raise raised
    return found


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the caller's signal handlers at the end: the launcher replaces them."""
    names = (*SIGNALS, "SIGHUP", "SIGQUIT")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def to_json(job: Job) -> str:
    """Return a job as JSON, to be read by `from_json` in another process."""
    texts = {str(path): content for path, content in job.texts.items()}
    plain = {"settings": job.settings.to_toml(), "folder": str(job.folder), "texts": texts}
    return json.dumps(vars(job) | plain)


def from_json(text: str) -> Job:
    found: dict[str, Any] = json.loads(text)
    found["settings"] = RunSettings.from_toml(found["settings"])
    found["folder"] = Path(found["folder"])
    found["texts"] = {Path(path): content for path, content in found["texts"].items()}
    return Job(**found)


def work(place: Path) -> None:
    """Train in one of the processes; the first one writes the result of the run."""
    try:
        done = in_this_process(from_json((place / JOB).read_text("utf-8")))
    except GlassformerError as error:
        told = {"what": error.what, "why": error.why, "remedy": error.remedy}
        found: dict[str, Any] = {"error": {"kind": type(error).__name__, **told}}
    except SystemExit:  # the first process reports the error
        return
    else:
        found = {
            "settings": done.settings.to_toml(), "steps": done.steps, "best": done.best,
            "reason": done.reason, "signal": done.signal,
        }  # fmt: skip
    if os.environ["RANK"] == "0":
        (place / OUTCOME).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    work(Path(sys.argv[1]))
