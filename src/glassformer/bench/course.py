"""A picture of training runs: loss, validation, learning rate and speed against minutes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer import picture
from glassformer.bench.curves import SCORE, records_of
from glassformer.callable_module import make_callable
from glassformer.errors import DataError
from glassformer.train.log import Record

PANELS = {
    "loss per label, in nats": ("train_loss", "valid_loss"),
    "validation, in percent": ("valid_bleu", "valid_accuracy"),
    "learning rate": ("learning_rate",),
    "labels a second": ("labels_per_second",),
}
COLOURS = 10  # matplotlib's; then the next line style
LINE_STYLES = ("-", "--", ":", "-.")
NAMES = {"train_loss": "training", "valid_loss": "validation", "valid_bleu": "BLEU"}


def draw(places: Sequence[Path], path: Path) -> None:
    """Draw runs, given by their folders or logs, on one picture."""
    picture.check(path)
    logs = {place: records_of(place) for place in places}
    for place, records in logs.items():
        if not records:
            raise DataError(
                f"The log of {place} is empty.",
                "A run writes its first line after train.log_every updates.",
                "Wait for it, or name another run.",
            )
    figure = picture.new_figure(11, 6.5)
    for axes, (title, names) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        for number, (place, records) in enumerate(logs.items()):
            for nth, name in enumerate(names, 2 * number):  # two a panel at most
                _line(axes, records, name, nth, place if len(logs) > 1 else None)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("minutes")
        axes.set_xlim(left=0)
        axes.grid(alpha=0.25)
        if axes.lines:
            axes.legend(fontsize=8)
    picture.save(figure, path)


def _line(axes: Any, records: list[Record], name: str, nth: int, place: Path | None) -> None:
    points = [(r["seconds"] / 60, r[name]) for r in records if name in r]
    if not points:
        return
    label = NAMES.get(name, name.removeprefix(SCORE).replace("_", " "))
    axes.plot(
        *zip(*points, strict=True),
        marker="." if name.startswith(SCORE) else "",
        ls=LINE_STYLES[nth // COLOURS % len(LINE_STYLES)],
        lw=1,
        color=f"C{nth % COLOURS}",
        label=f"{place}: {label}" if place else label,
    )


make_callable(__name__, "glassformer.api.bench", "course")
