"""Train a recipe again with one setting changed at a time, in one call."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.api.recipe import AnyRecipe, folder_of, settings_of
from glassformer.api.run import Job, StoppedError, carry_out_or_stop
from glassformer.config import RunSettings
from glassformer.extras import require_torch
from glassformer.progress import say, silent

if TYPE_CHECKING:
    from glassformer.bench.ablate import Report


def ablate(
    recipe: AnyRecipe,
    vary: Mapping[str, Sequence[object]],
    *,
    changes: Mapping[str, Any] | None = None,
    seeds: int = 1,
    grid: bool = False,
    run: str | Path | None = None,
    command: str = "glassformer.ablate(...)",
    progress: bool = True,
) -> "Report":
    """Train a recipe as it is and with other settings; `glassformer ablate`.

        report = gf.ablate("reverse", {"model.dropout": [0.0, 0.3]}, seeds=3)
        for row in report.rows:
            print(row.name, row.best, row.best_difference)

    recipe    RECIPE.toml, settings, a mapping of sections to settings, or the name of a preset.
    vary      the values to try of each setting; text is read as in a recipe.
    changes   settings to change in all runs, by section.
    seeds     runs of each variant, with different seeds.
    grid      try all combinations, instead of one change at a time.
    run       folder of the runs. None: runs/ablate-NAME. Finished runs in it are not repeated.
    command   the text that the report quotes as its origin.

    All runs have the same budget. `report.sheet()` has the tables, `to_json()` the figures.
    """
    require_torch("glassformer.ablate")
    from glassformer.bench.ablate import Report, rows, run_trial
    from glassformer.bench.variants import trials, variants

    base, notice = settings_of(recipe, changes), say if progress else silent
    name = folder_of(recipe, base).name
    tried = {key: [_written(value) for value in values] for key, values in vary.items()}
    place = Path(run) if run is not None else Path("runs") / f"ablate-{name}"
    planned, outcomes = trials(variants(base, tried, grid), seeds, place), []
    for number, trial in enumerate(planned, start=1):
        notice(f"run {number} of {len(planned)}: {trial}")
        try:
            outcomes.append(run_trial(trial, partial(_train, progress=progress)))
        except StoppedError:
            notice("interrupted; the same command continues from here")
            raise
        if outcomes[-1].error:
            notice(f"went wrong: {outcomes[-1].error}")
    return Report(name, command, base, list(tried), rows(outcomes, base.train.metric), grid)


def _written(value: object) -> str:
    """Return a value in the syntax of a recipe."""
    return value if isinstance(value, str) else json.dumps(value)


def _train(settings: RunSettings, folder: Path, resume: bool, progress: bool) -> None:
    carry_out_or_stop(Job(settings, folder, resume, progress=progress))
