"""Train a model in one call: from a recipe, settings or a preset, on files or on Python lists."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

from glassformer.config import PRESETS, RunSettings
from glassformer.errors import InputError, SettingsError
from glassformer.extras import require_torch
from glassformer.output import save_text
from glassformer.progress import Bar, say, silent

if TYPE_CHECKING:
    from glassformer.data.prepare import Prepared
    from glassformer.pipeline import Engine, Pipeline
    from glassformer.train.distributed import World

Example = str | Sequence[str | int]  # a text, or (source, target), or (text, label)
HELD_OUT = 10  # one example of so many validates where no list for that is given


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
        self, int8: bool | None = None, engine: "Engine" = "auto", threads: int | None = None
    ) -> "Pipeline":
        """Load the best checkpoint, as `glassformer.load` does."""
        from glassformer.pipeline import load

        return load(self.folder, int8, engine, threads)

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
    recipe: RunSettings | Mapping[str, Any] | str | Path,
    data: str | Sequence[Example] | None = None,
    *,
    valid: Sequence[Example] | None = None,
    run: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: bool = True,
) -> TrainedRun:
    """Train a model and return its run; `glassformer train` on the command line.

        rows = [("a fine film", "good"), ("a dull film", "bad"), ...]
        run = gf.train("classifier", rows, changes={"train": {"max_minutes": 2}})
        run.load().classify("what a fine story")

    recipe    RECIPE.toml, settings, a mapping of sections to settings, or the name of a preset.
    data      None: what the settings say. The name of a set (`glassformer data list`). Or a list of
              (source, target) for a translator, of (text, label) for a classifier, of texts for a
              language model. A list is kept as RUN/data/train.jsonl, so that the run can be resumed
              from the command line, too.
    valid     the list to validate on. None: every tenth example of `data`, not trained on.
    run       folder of checkpoints and log. None: runs/NAME of the recipe, preset or kind of model.
    changes   settings to change, by section: {"train": {"max_steps": 1000}}.
    resume    continue the run in the folder from its last checkpoint, to the same bits.
    progress  show a bar and the validation scores.

    Ctrl-C saves the run and returns it; `signal` is then set.
    """
    settings = settings_of(recipe, changes)
    folder = Path(run) if run is not None else Path("runs") / name_of(recipe, settings)
    texts = None
    if data is not None and not isinstance(data, str):
        settings, texts = _with_lists(settings, data, valid, folder / "data")
    elif valid is not None:
        raise InputError(
            "A list to validate on was given without a list to train on.",
            "A named set and files have their own validation text.",
            "Give `data` as a list, too, or leave `valid` out.",
        )
    elif data is not None:
        settings = settings.replace(data={"name": data})
    done = carry_out(settings, folder, resume, texts, progress)
    if done.signal not in (None, SIGINT):
        raise SystemExit(done.exit_code)  # the process was told to end; the run is saved
    return done


def settings_of(
    recipe: RunSettings | Mapping[str, Any] | str | Path, changes: Mapping[str, Any] | None = None
) -> RunSettings:
    """Return the settings that a recipe file, a preset's name or a mapping stands for."""
    if isinstance(recipe, RunSettings):
        settings = recipe
    elif isinstance(recipe, Mapping):
        settings = RunSettings.of(**recipe)
    elif recipe in PRESETS:
        settings = RunSettings(model=PRESETS[str(recipe)])
    else:
        settings = _read_recipe(Path(recipe))
    return settings.replace(**changes) if changes else settings


def _read_recipe(path: Path) -> RunSettings:
    if not path.is_file():
        raise SettingsError(
            f"There is no recipe {path}.",
            "A recipe is a TOML file with sections [model], [data], [train] and [search].",
            f"Look into recipes/ for examples; in Python a preset will do: {', '.join(PRESETS)}.",
        )
    return RunSettings.from_toml(path.read_bytes())


def name_of(recipe: object, settings: RunSettings) -> str:
    """Return the name of a recipe, for folders: its file's, the preset's or the kind of model."""
    return Path(recipe).stem if isinstance(recipe, str | Path) else settings.model.kind


def carry_out(
    settings: RunSettings,
    folder: Path,
    resume: bool = False,
    texts: Mapping[Path, str] | None = None,
    progress: bool = True,
) -> TrainedRun:
    """Prepare the data and train, in every process that torchrun started.

    `texts` are files to write first: the content of each path.
    """
    require_torch("Training")
    from glassformer.evaluate.validation import validation_bleu
    from glassformer.train.distributed import world
    from glassformer.train.loop import start
    from glassformer.train.loop import train as run_loop

    notice = say if progress else silent
    with own_torch_state(), world() as processes, ExitStack() as stack:
        processes.lead(lambda: stack.enter_context(_claimed(folder, resume, notice)))
        for path, content in (texts or {}).items() if processes.leads else ():
            save_text(path, content)
        data = _prepared_by_all(processes, settings, folder if resume else None, notice)
        run = start(data, folder, processes, resume, notice)
        evaluate, s, at = validation_bleu(data), settings.train, run.position
        if progress and processes.leads:
            with Bar("training", s.max_steps, at.step, s.max_minutes, at.seconds) as bar:
                reason = run_loop(run, evaluate, bar.record)
            say(f"stopped after {at.step:,} updates: {reason}")
            say(f"checkpoints: {folder}/best, {folder}/latest")
        else:
            reason = run_loop(run, evaluate)
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
                f"Continue it (--resume, resume=True), or name another place: --run {folder}-2.",
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

    with own_torch_state(), world() as processes:
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
def own_torch_state() -> Iterator[None]:
    """Give torch's seed and number of threads back to the caller when a run has ended."""
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
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


# Lists of examples


def _with_lists(
    settings: RunSettings,
    data: Sequence[Example],
    valid: Sequence[Example] | None,
    folder: Path,
) -> tuple[RunSettings, dict[Path, str]]:
    """Return settings that read the lists from JSON files in `folder`, and those files."""
    columns = 2 if settings.model.kind in ("translator", "classifier") else 1
    rows = [_row(example, columns, settings.model.kind) for example in data]
    if valid is not None:
        held_out = [_row(example, columns, settings.model.kind) for example in valid]
    else:
        held_out, rows = _split(rows, settings.data.valid_examples)
    if not rows or not held_out:
        raise InputError(
            f"There are {len(rows)} examples to train on and {len(held_out)} to validate on.",
            "A run needs at least one of each.",
            "Give more examples; `valid` is a list of its own.",
        )
    files = {folder / "train.jsonl": rows, folder / "valid.jsonl": held_out}
    train_file, valid_file = map(str, files)
    named = {
        "name": "files",
        "train": (train_file,),
        "valid": (valid_file,),
        "columns": tuple(str(column) for column in range(1, columns + 1)),
    }
    texts = {
        path: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        for path, content in files.items()
    }
    return settings.replace(data=named), texts


def _split(rows: list[list[str | int]], most: int) -> tuple[list[Any], list[Any]]:
    """Return evenly spaced rows to validate on, one of ten and at most `most`, and the others."""
    count = min(most, max(1, len(rows) // HELD_OUT), max(0, len(rows) - 1))
    chosen = {i * len(rows) // count for i in range(count)}
    parts: tuple[list[Any], list[Any]] = ([], [])
    for number, row in enumerate(rows):
        parts[number not in chosen].append(row)
    return parts


def _row(example: Example, columns: int, kind: str) -> list[str | int]:
    row: list[str | int] = [example] if isinstance(example, str) else list(example)
    if len(row) != columns or not all(isinstance(cell, str | int) for cell in row):
        wanted = {1: "a text", 2: "a pair of texts" if kind == "translator" else "(text, label)"}
        raise InputError(
            f"{example!r} is no example for a {kind}.",
            f"Each is {wanted[columns]}.",
            "Give a list of such examples.",
        )
    return row
