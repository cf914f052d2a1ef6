"""Train a model in one call: from a recipe, settings or a preset, or from a user's file alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

from glassformer.api.lists import Example, Task, own_run, with_lists
from glassformer.api.recipe import RECIPE, AnyRecipe, folder_of, settings_of, with_options
from glassformer.api.run import Job, TrainedRun, carry_out
from glassformer.errors import InputError
from glassformer.progress import say, silent

if TYPE_CHECKING:
    from glassformer.train.callbacks import Callback


def train(
    recipe: AnyRecipe | None = None,
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
    data      None: as in the settings. The name of a set (`glassformer data list`). Or a list of
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
    callbacks objects with on_start, on_record or on_end: see glassformer.train.callbacks.
    progress  show a bar and the validation scores.
    device    auto, cpu, cuda, cuda:1 or mps. None: train.device of the recipe, which is auto.

    Ctrl-C saves the run and returns it; `signal` is then set.
    """
    if recipe is None:
        changes = with_options(changes, device)
        own = {"columns": columns, "minutes": minutes, "skip_bad": skip_bad, "changes": changes}
        job = _own_job(data, task, valid, run, own, resume, progress, bool(callbacks))
    else:
        _refuse_with_recipe(task=task, columns=columns or None, minutes=minutes)
        changes = with_options(changes, device, skip_bad)
        job = _recipe_job(recipe, changes, data, valid, run, resume, progress)
    done = carry_out(job, callbacks)
    if done.signal not in (None, SIGINT):
        raise SystemExit(done.exit_code)  # the process was told to end; the run is saved
    return done


def _recipe_job(
    recipe: AnyRecipe,
    changes: Mapping[str, Any],
    data: str | Path | Sequence[Example] | None,
    valid: Sequence[Example] | None,
    run: str | Path | None,
    resume: bool,
    progress: bool,
) -> Job:
    """Return the run of a recipe: on its own data, a named set or a list."""
    settings, texts = settings_of(recipe, changes), dict[Path, str]()
    folder = Path(run) if run is not None else folder_of(recipe, settings)
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
    return Job(settings, folder, resume, texts, progress=progress)


def _refuse_with_recipe(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"{name} was given with a recipe.",
                "It decides how settings are chosen for a file, and a recipe has settings.",
                f"Leave {name} out, or the recipe.",
            )


def _own_job(
    data: str | Path | Sequence[Any] | None,
    task: Task | None,
    valid: Sequence[Example] | None,
    run: str | Path | None,
    own: dict[str, Any],
    resume: bool,
    progress: bool,
    in_this_process: bool,
) -> Job:
    """Return the run of a user's file or list, with settings that `own_run` chooses for it."""
    if data is None or valid is not None:
        raise InputError(
            "There is no recipe" + (", and a list to validate on." if valid else " and no data."),
            "Without a recipe the settings are chosen for `data`, and a part of it validates.",
            'For example: gf.train(data="pairs.tsv"), or gf.train("multi30k").',
        )
    folder = Path(run) if run is not None else _own_folder(data)
    if resume and (folder / RECIPE).is_file():
        return Job(settings_of(folder, own["changes"]), folder, resume, progress=progress)
    notice = say if progress else silent
    settings, texts, comment = own_run(data, task, **own, folder=folder, notice=notice)
    notice(f"written: {folder / RECIPE}")
    if in_this_process:  # where its callbacks live
        threads = settings.train.processes * settings.train.threads
        settings = settings.replace(train={"processes": 1, "threads": threads})
    return Job(settings, folder, resume, texts, comment, progress)


def _own_folder(data: str | Path | Sequence[Any]) -> Path:
    first = data[0] if isinstance(data, tuple) and isinstance(data[0], Path) else data
    named = isinstance(first, str | Path)
    return Path("runs") / (Path(str(first)).name.partition(".")[0] if named else "own")
