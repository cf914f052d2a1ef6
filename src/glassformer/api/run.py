"""Carry out a training run: data, loop and result, in this process or in several."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.api.prepared import description, prepared, prepared_by_all
from glassformer.api.recipe import RECIPE
from glassformer.api.torch_state import own_torch_state
from glassformer.config import RunSettings
from glassformer.errors import InputError, SettingsError
from glassformer.extras import require_torch
from glassformer.openmp import share_cores
from glassformer.output import save_text
from glassformer.progress import Bar, say, silent

if TYPE_CHECKING:
    from glassformer.pipeline import Engine, Pipeline
    from glassformer.train.callbacks import Callback
    from glassformer.train.run import Run
    from glassformer.train.validate import Evaluate


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: its folder, its best score, and why it stopped."""

    folder: Path  # holds best/, latest/ and log.jsonl
    settings: RunSettings  # completed from the data: vocabulary size, labels
    steps: int  # updates
    metric: str  # what `best` is: loss, bleu or accuracy
    best: float | None  # the best validation score; None if the run was stopped before one
    reason: str  # why it stopped
    signal: int | None = None  # number of the signal that stopped it: 2 after Ctrl-C

    def load(
        self,
        int8: bool | None = None,
        engine: "Engine" = "auto",
        threads: int | None = None,
        device: str = "cpu",
    ) -> "Pipeline":
        """Load the best checkpoint, as `glassformer.load` does."""
        from glassformer.pipeline import load

        return load(self.folder, int8, engine, threads, device)

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal that stopped the run, as in a shell; else 0."""
        return 0 if self.signal is None else 128 + self.signal

    def log(self) -> list[dict[str, Any]]:
        """Return the records of the log: losses, validation scores, speed."""
        from glassformer.train.log import read

        return read(self.folder / "log.jsonl")

    def _facts(self) -> dict[str, str]:
        score = "no validation yet" if self.best is None else f"{self.best:.4f}"
        return {
            "run": str(self.folder),
            f"best {self.metric}": score,
            "updates": f"{self.steps:,}",
            "stopped": self.reason,
        }

    def __str__(self) -> str:
        return "\n".join(f"{name:<14}{value}" for name, value in self._facts().items())

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table>{''.join(rows)}</table>"


class StoppedError(KeyboardInterrupt):
    """A signal stopped the run. It is saved, and the same call continues it."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


@dataclass(frozen=True)
class Job:
    """A run to carry out: settings, folder, and the files to write before it starts."""

    settings: RunSettings
    folder: Path
    resume: bool = False
    texts: Mapping[Path, str] = field(default_factory=dict)  # the content of each path
    comment: str = ""  # first line of RUN/recipe.toml
    progress: bool = True

    @property
    def recipe(self) -> str:
        """The content of RUN/recipe.toml."""
        return (f"# {self.comment}\n\n" if self.comment else "") + self.settings.to_toml()


def carry_out(job: Job, callbacks: "Sequence[Callback]" = ()) -> TrainedRun:
    """Prepare the data and train, in the processes that torchrun started, or in new ones."""
    require_torch("Training")
    processes = job.settings.train.processes
    if processes == 1 or "RANK" in os.environ:
        return in_this_process(job, callbacks)
    if callbacks:
        raise InputError(
            f"callbacks do not go with train.processes = {processes}.",
            "They are objects of this process, and the run is in others.",
            "Set train.processes = 1 and train.threads, or start torchrun yourself.",
        )
    from glassformer.api.processes import launch

    found = launch(job)
    settings = RunSettings.from_toml(found.pop("settings"))
    return TrainedRun(job.folder, settings, metric=settings.train.metric, **found)


def carry_out_or_stop(job: Job) -> TrainedRun:
    """Carry out one of several runs; a signal that stops it stops the others, too."""
    done = carry_out(job)
    if done.signal is not None:
        raise StoppedError(done.exit_code)
    return done


def in_this_process(job: Job, callbacks: "Sequence[Callback]" = ()) -> TrainedRun:
    """Prepare the data and train, as the only process or as one of several."""
    share_cores()
    from glassformer.api.ending import ending_lines
    from glassformer.evaluate.validation import validation_bleu
    from glassformer.train import callbacks as own
    from glassformer.train.distributed import world
    from glassformer.train.run import last_step
    from glassformer.train.start import start

    notice, folder = say if job.progress else silent, job.folder
    own.check(callbacks)
    with world(job.settings.train.device) as processes, ExitStack() as stack:
        stack.enter_context(own_torch_state(processes.device))
        processes.lead(lambda: stack.enter_context(_claimed(folder, job.resume, notice)))
        for path, content in job.texts.items() if processes.leads else ():
            save_text(path, content)
        data = prepared_by_all(processes, job.settings, folder if job.resume else None, notice)
        run = start(data, folder, processes, job.resume, notice)
        evaluate = validation_bleu(data)  # an unsuitable metric stops here: nothing is written yet
        if processes.leads:
            save_text(folder / RECIPE, job.recipe)
        shown = job.progress and processes.leads
        reason = _train(run, evaluate, callbacks if processes.leads else (), shown)
        last = last_step(run)  # which all processes must compute
        for line in ending_lines(run, reason, last) if shown else ():
            say(line)
    signal = run.signal if processes.leads else None
    metric, best = run.settings.train.metric, run.stopping.best
    return TrainedRun(folder, data.settings, run.position.step, metric, best, reason, signal)


def _train(
    run: "Run", evaluate: "Evaluate | None", callbacks: "Sequence[Callback]", shown: bool
) -> str:
    """Run the loop with its callbacks and bar; return why it stopped."""
    from glassformer.train import callbacks as own
    from glassformer.train.loop import train

    s, at = run.settings.train, run.position
    for one in callbacks:
        if isinstance(one, own.OnStart):
            one.on_start(run.settings, run.folder.path)
    if shown:
        with Bar("training", run.max_steps, at.step, s.max_minutes, at.seconds) as bar:
            reason = train(run, evaluate, own.reporting(callbacks, bar.record))
    else:
        reason = train(run, evaluate, own.reporting(callbacks, lambda record: None))
    for one in callbacks:
        if isinstance(one, own.OnEnd):
            one.on_end(reason)
    return reason


@contextmanager
def _claimed(folder: Path, resume: bool, notice: Callable[[str], None]) -> Iterator[None]:
    """Lock the folder of a new or resumed run; refuse a new run where one exists."""
    from glassformer.checkpoint import RunFolder, sole_writer

    with sole_writer(folder, notice):
        if RunFolder(folder).steps() and not resume:
            raise SettingsError(
                f"{folder} already holds a run.",
                "A new run there would overwrite it.",
                f"Continue it: glassformer train {folder} --resume (resume=True); or name another "
                f"folder: --run {folder}-2.",
            )
        yield


def verify_resume(settings: RunSettings, notice: Callable[[str], None] = say) -> None:
    """Prove on these settings that an interrupted run resumes to the same bits, or raise."""
    require_torch("Training")
    from glassformer.train.distributed import world
    from glassformer.train.verify import verify_resume as verify

    def lead() -> None:
        for line in description(prepared(settings)):  # the other processes find it in the cache
            notice(line)
        verify(settings, notice)

    with world() as processes, own_torch_state(processes.device):
        processes.lead(lead)
