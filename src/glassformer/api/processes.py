"""Train in several processes of this machine, started by torch's elastic launcher.

Each process runs this module. The first one writes what became of the run, or the error, as JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from glassformer import errors
from glassformer.config import RunSettings
from glassformer.errors import GlassformerError, TrainingError

GRACE = 600  # seconds a stopped process may take to validate and save before it is killed
SIGNALS = ("SIGINT", "SIGTERM")


@dataclass(frozen=True)
class Job:
    """Orders for each process."""

    settings: str  # TOML
    folder: str
    resume: bool
    texts: dict[str, str]  # paths of files to write first, and where their content is
    recipe: str
    progress: bool
    outcome: str  # file that the first process writes


def launch(
    settings: RunSettings,
    folder: Path,
    resume: bool,
    texts: Mapping[Path, str],
    recipe: str,
    progress: bool,
) -> dict[str, Any]:
    """Start `train.processes` processes, wait for them, and return what became of the run."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with TemporaryDirectory(prefix="glassformer-") as place, _own_signals():
        outcome, job = Path(place, "outcome.json"), Path(place, "job.json")
        contents = {str(path): str(Path(place, str(i))) for i, path in enumerate(texts)}
        for path, content in texts.items():
            Path(contents[str(path)]).write_text(content, "utf-8", newline="\n")
        what = Job(
            settings.to_toml(), str(folder), resume, contents, recipe, progress, str(outcome)
        )
        job.write_text(json.dumps(asdict(what)), "utf-8")
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=settings.train.processes,
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
            elastic_launch(config, sys.executable)("-m", "glassformer.api.processes", str(job))
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
    """Give the caller's handlers back: the launcher leaves its own."""
    names = (*SIGNALS, "SIGHUP", "SIGQUIT")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def work(job: Job) -> None:
    """Train in one of the processes."""
    from glassformer.api.train import in_this_process

    leads, outcome = os.environ["RANK"] == "0", Path(job.outcome)
    settings = RunSettings.from_toml(job.settings)
    try:
        texts = {Path(to): Path(at).read_text("utf-8") for to, at in job.texts.items()}
        done = in_this_process(
            settings, Path(job.folder), job.resume, texts, job.recipe, job.progress
        )
    except GlassformerError as error:
        told = {"what": error.what, "why": error.why, "remedy": error.remedy}
        found: dict[str, Any] = {"error": {"kind": type(error).__name__, **told}}
    except SystemExit:  # the first process has an error, and tells it
        return
    else:
        found = {
            "settings": done.settings.to_toml(), "steps": done.steps, "best": done.best,
            "reason": done.reason, "signal": done.signal,
        }  # fmt: skip
    if leads:
        outcome.write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    work(Job(**json.loads(Path(sys.argv[1]).read_text("utf-8"))))
