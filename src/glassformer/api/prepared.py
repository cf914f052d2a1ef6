"""The data of a run, prepared by all of its processes, and lines that describe it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.config import RunSettings
from glassformer.extras import require_torch

if TYPE_CHECKING:
    from glassformer.data.prepare import Prepared
    from glassformer.train.distributed import World


def prepared(settings: RunSettings, folder: Path | None = None) -> "Prepared":
    """Prepare the data of a recipe, or of a run that is resumed in `folder`."""
    require_torch("Preparing training data")
    from glassformer.train.start import prepared as prepare

    return prepare(settings, folder)


def prepared_by_all(
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
    """Yield how much text was skipped, left out or cut, with the word for it."""
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
