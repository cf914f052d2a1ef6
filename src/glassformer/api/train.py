"""Train a model in one call: from a recipe, settings or a preset, or from a user's file alone."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

from glassformer import recipes
from glassformer.api.lists import Example, Task, own_run, with_lists
from glassformer.config import PRESETS, RunSettings
from glassformer.device import check_name
from glassformer.errors import InputError, SettingsError, near_name
from glassformer.extras import require_torch
from glassformer.openmp import share_cores
from glassformer.output import save_text
from glassformer.progress import Bar, say, silent

if TYPE_CHECKING:
    import torch

    from glassformer.data.prepare import Prepared
    from glassformer.pipeline import Engine, Pipeline
    from glassformer.train.callbacks import Callback
    from glassformer.train.distributed import World

RECIPE = "recipe.toml"  # in a run's folder: the settings it was started with


@dataclass(frozen=True)
class TrainedRun:
    """A run that has ended: where it is, how good it became, and why it stopped."""

    folder: Path  # holds best/, latest/ and log.jsonl
    settings: RunSettings  # with what was found in the data: vocabulary size, labels
    steps: int  # updates
    metric: str  # what `best` is: loss, bleu or accuracy
    best: float | None  # the best validation score; None if the run was stopped before one
    reason: str  # why it stopped
    signal: int | None = None  # that stopped it: 2 after Ctrl-C

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
        """The exit code of a process that a signal stopped, as a shell counts; else 0."""
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


def train(
    recipe: RunSettings | Mapping[str, Any] | str | Path | None = None,
    data: str | Path | Sequence[Example] | None = None,
    *,
    task: Task | None = None,
    columns: Sequence[str] = (),
    minutes: float | None = None,
    valid: Sequence[Example] | None = None,
    run: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    skip_bad: bool = False,
    callbacks: "Sequence[Callback]" = (),
    progress: bool = True,
    device: str | None = None,
) -> TrainedRun:
    """Train a model and return its run; `glassformer train` on the command line.

        run = gf.train(data="reviews.csv", minutes=5)  # everything else is chosen and printed
        run.load().classify("what a fine story")
        gf.train("multi30k")
        gf.train("classifier", [("a fine film", "good"), ...], changes={"train": {"epochs": 3}})

    recipe    A recipe of the package (`glassformer recipes`), RECIPE.toml, the folder of a run,
              settings, a mapping of sections to settings, or a preset. None: chosen for `data`.
    data      None: what the settings say. The name of a set (`glassformer data list`). Or a list of
              (source, target) for a translator, of (text, label) for a classifier, of texts for a
              language model. Without a recipe also a TSV, CSV or JSONL file, or a tuple of two
              Paths of plain files. The examples are kept in RUN/data, so that the run can be
              resumed.
    task      Without a recipe: "translate" or "classify". None: by the columns.
    columns, minutes, skip_bad
              Without a recipe: two columns by name or number, None: guessed; the time to train,
              None: 20; and whether to leave out rows that cannot be read.
    valid     the list to validate on. None: a part of `data` drawn at random, not trained on.
    run       folder of checkpoints and log. None: runs/NAME of the recipe, preset, file or kind.
    changes   settings to change, by section: {"train": {"max_steps": 1000}}.
    resume    continue the run in the folder from its last checkpoint, to the same bits.
    callbacks objects that are told of the run: see glassformer.train.callbacks.
    progress  show a bar and the validation scores.
    device    auto, cpu, cuda, cuda:1 or mps. None: train.device of the recipe, which is auto.

    Ctrl-C saves the run and returns it; `signal` is then set.
    """
    changes = with_device(changes, device)
    if recipe is None:
        done = train_own(
            data, task, columns=columns, minutes=minutes, valid=valid, run=run, changes=changes,
            resume=resume, skip_bad=skip_bad, callbacks=callbacks, progress=progress,
        )  # fmt: skip
    else:
        _refuse_without_own(task=task, columns=columns or None, minutes=minutes)
        settings = settings_of(recipe, changes)
        if skip_bad:
            settings = settings.replace(data={"skip_bad": True})
        folder = Path(run) if run is not None else folder_of(recipe, settings)
        texts = None
        if data is not None and not isinstance(data, str | Path):
            settings, texts = with_lists(settings, data, valid, folder / "data")
        elif valid is not None:
            raise InputError(
                "A list to validate on was given without a list to train on.",
                "A named set and files have their own validation text.",
                "Give `data` as a list, too, or leave `valid` out.",
            )
        elif data is not None:
            settings = settings.replace(data={"name": str(data)})
        done = carry_out(settings, folder, resume, texts, progress, callbacks=callbacks)
    if done.signal not in (None, SIGINT):
        raise SystemExit(done.exit_code)  # the process was told to end; the run is saved
    return done


def with_device(changes: Mapping[str, Any] | None, device: str | None) -> dict[str, Any]:
    """Return the changes with the device that was asked for, if one was."""
    changed = dict(changes or {})
    if device is not None:
        check_name(device)
        changed["train"] = {**changed.get("train", {}), "device": device}
    return changed


def _refuse_without_own(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"{name} was given with a recipe.",
                "It decides how settings are chosen for a file, and a recipe has settings.",
                f"Leave {name} out, or the recipe.",
            )


def train_own(
    data: str | Path | Sequence[Any] | None,
    task: Task | None = None,
    *,
    columns: Sequence[str] = (),
    minutes: float | None = None,
    valid: Sequence[Example] | None = None,
    run: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    skip_bad: bool = False,
    callbacks: "Sequence[Callback]" = (),
    progress: bool = True,
) -> TrainedRun:
    """Train on a user's file or list with settings that are chosen for it."""
    if data is None or valid is not None:
        raise InputError(
            "There is no recipe" + (", and a list to validate on." if valid else " and no data."),
            "Without a recipe the settings are chosen for `data`, and a part of it validates.",
            'For example: gf.train(data="pairs.tsv"), or gf.train("multi30k").',
        )
    folder = Path(run) if run is not None else _own_folder(data)
    if resume and (folder / RECIPE).is_file():
        again = settings_of(folder, changes)
        return carry_out(again, folder, resume, None, progress, callbacks=callbacks)
    settings, texts, line = own_run(
        data, task, columns=columns, minutes=minutes, skip_bad=skip_bad, changes=changes,
        folder=folder, notice=say if progress else silent,
    )  # fmt: skip
    if progress:
        say(f"written: {folder / RECIPE}")
    if callbacks:  # they live in this process
        settings = settings.replace(train={"processes": 1, "threads": _cores(settings)})
    return carry_out(settings, folder, resume, texts, progress, line, callbacks)


def _cores(settings: RunSettings) -> int:
    return settings.train.processes * settings.train.threads


def _own_folder(data: str | Path | Sequence[Any]) -> Path:
    first = data[0] if isinstance(data, tuple) and isinstance(data[0], Path) else data
    named = isinstance(first, str | Path)
    return Path("runs") / (Path(str(first)).name.partition(".")[0] if named else "own")


def settings_of(
    recipe: RunSettings | Mapping[str, Any] | str | Path, changes: Mapping[str, Any] | None = None
) -> RunSettings:
    """Return the settings that a recipe, a run's folder, a preset or a mapping stands for."""
    if isinstance(recipe, RunSettings):
        settings = recipe
    elif isinstance(recipe, Mapping):
        settings = RunSettings.of(**recipe)
    elif str(recipe) in recipes.names():
        settings = RunSettings.from_toml(recipes.text(str(recipe)))
    elif str(recipe) in PRESETS:
        settings = RunSettings(model=PRESETS[str(recipe)])
    else:
        settings = _read_recipe(Path(recipe))
    return settings.replace(**changes) if changes else settings


def _read_recipe(path: Path) -> RunSettings:
    file = path / RECIPE if path.is_dir() else path
    if not file.is_file():
        near = near_name(path.stem, recipes.names())
        raise SettingsError(
            f"There is no recipe {path}.",
            f"The recipes of the package are {', '.join(recipes.names())}; others are TOML files "
            "with the sections [model], [data], [train] and [search].",
            f"glassformer train {near}" if near else "glassformer recipes",
        )
    return RunSettings.from_toml(file.read_bytes())


def folder_of(recipe: object, settings: RunSettings) -> Path:
    """Return the folder of a run that was given none: its own, or runs/NAME."""
    if isinstance(recipe, str | Path):
        return Path(recipe) if Path(recipe).is_dir() else Path("runs") / Path(recipe).stem
    return Path("runs") / settings.model.kind


def carry_out(
    settings: RunSettings,
    folder: Path,
    resume: bool = False,
    texts: Mapping[Path, str] | None = None,
    progress: bool = True,
    comment: str = "",
    callbacks: "Sequence[Callback]" = (),
) -> TrainedRun:
    """Prepare the data and train, in every process that torchrun started, or in our own.

    `texts` are files to write first: the content of each path. The settings are written as
    RUN/recipe.toml, below `comment`.
    """
    require_torch("Training")
    recipe = (f"# {comment}\n\n" if comment else "") + settings.to_toml()
    if settings.train.processes == 1 or "RANK" in os.environ:
        return in_this_process(settings, folder, resume, texts or {}, recipe, progress, callbacks)
    if callbacks:
        raise InputError(
            f"callbacks do not go with train.processes = {settings.train.processes}.",
            "They live in this process, and the run would be in others.",
            "Set train.processes = 1 and train.threads, or start torchrun yourself.",
        )
    from glassformer.api.processes import launch

    found = launch(settings, folder, resume, texts or {}, recipe, progress)
    settings = RunSettings.from_toml(found.pop("settings"))
    return TrainedRun(folder, settings, metric=settings.train.metric, **found)


def in_this_process(
    settings: RunSettings,
    folder: Path,
    resume: bool,
    texts: Mapping[Path, str],
    recipe: str,
    progress: bool,
    callbacks: "Sequence[Callback]" = (),
) -> TrainedRun:
    """Prepare the data and train, as the only process or as one of several."""
    share_cores()
    from glassformer.api.ending import ending_lines
    from glassformer.evaluate.validation import validation_bleu
    from glassformer.train import callbacks as own
    from glassformer.train.distributed import world
    from glassformer.train.loop import last_step, start
    from glassformer.train.loop import train as run_loop

    notice = say if progress else silent
    own.check(callbacks)
    with world(settings.train.device) as processes, ExitStack() as stack:
        stack.enter_context(own_torch_state(processes.device))
        processes.lead(lambda: stack.enter_context(_claimed(folder, resume, notice)))
        for path, content in texts.items() if processes.leads else ():
            save_text(path, content)
        data = _prepared_by_all(processes, settings, folder if resume else None, notice)
        run = start(data, folder, processes, resume, notice)
        evaluate, s, at = validation_bleu(data), settings.train, run.position
        told = callbacks if processes.leads else ()
        if processes.leads:
            save_text(folder / RECIPE, recipe)
        for one in told:
            if isinstance(one, own.OnStart):
                one.on_start(data.settings, folder)
        if progress and processes.leads:
            with Bar("training", run.max_steps, at.step, s.max_minutes, at.seconds) as bar:
                reason = run_loop(run, evaluate, own.reporting(told, bar.record))
        else:
            reason = run_loop(run, evaluate, own.reporting(told, lambda record: None))
        for one in told:
            if isinstance(one, own.OnEnd):
                one.on_end(reason)
        last = last_step(run)  # which all processes must ask
        for line in ending_lines(run, reason, last) if progress and processes.leads else ():
            say(line)
    best, signal = run.stopping.best, run.signal if processes.leads else None
    return TrainedRun(folder, data.settings, at.step, s.metric, best, reason, signal)


@contextmanager
def _claimed(folder: Path, resume: bool, notice: Callable[[str], None]) -> Iterator[None]:
    """Lock a run folder in which a new run may begin, or whose run is resumed."""
    from glassformer.checkpoint import RunFolder, sole_writer

    with sole_writer(folder, notice):
        if RunFolder(folder).steps() and not resume:
            raise SettingsError(
                f"{folder} holds a run already.",
                "A new run in its place would lose it.",
                f"Continue it: glassformer train {folder} --resume (resume=True); or name another "
                f"place: --run {folder}-2.",
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


def prepared(settings: RunSettings, folder: Path | None = None) -> "Prepared":
    """Prepare the data of a recipe, or of a run that is resumed in `folder`."""
    require_torch("Preparing training data")
    from glassformer.train.loop import prepared as prepare

    return prepare(settings, folder)


def _prepared_by_all(
    processes: "World",
    settings: RunSettings,
    folder: Path | None,
    notice: Callable[[str], None],
) -> "Prepared":
    """Prepare the data in one process first; the others find it in the cache."""
    data = processes.first_alone(lambda: prepared(settings, folder))
    if processes.leads:
        for line in description(data):
            notice(line)
    return data


@contextmanager
def own_torch_state(device: "torch.device | None" = None) -> Iterator[None]:
    """Give torch's seed and number of threads back to the caller when a run has ended."""
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(
        devices=[device] if device is not None and device.type == "cuda" else []
    ):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


# What the data of a run is


def description(data: "Prepared") -> list[str]:
    """Return lines that tell how many examples and subwords there are, and what was left out."""
    sizes = ", ".join(f"{side} {len(t):,}" for side, t in data.tokenizers.items())
    lines = [counts(data, "examples "), *(f"{fate}: {text}" for fate, text in losses(data))]
    return [*lines, f"subwords: {sizes}"] if sizes else lines


def counts(data: "Prepared", examples: str = "") -> str:
    """Return how many examples there are to train, to validate and to end on."""
    ended = f", {len(data.final):,} to end on" if data.final is not None else ""
    return f"{len(data.train):,} {examples}to train on, {len(data.valid):,} to validate on{ended}"


def losses(data: "Prepared") -> Iterator[tuple[str, str]]:
    """Yield what became of text that is not in the examples, and how much of it there was."""
    longest = data.settings.data.max_length
    of_all = {
        "": data.lost, ", to validate on": data.valid_lost, ", to end on": data.final_lost
    }  # fmt: skip
    for purpose, lost in of_all.items():
        if lost.bad_rows:
            yield "skipped", f"{lost.bad_rows}{purpose}"
        if lost.left_out:
            yield "left out", f"{lost.left_out:,} longer than {longest} subwords{purpose}"
        if lost.cut:
            yield "cut", f"{lost.cut:,} of {longest} subwords or more{purpose}"
