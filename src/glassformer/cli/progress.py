"""Long work: a bar with the time left on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(label: str, steps: int) -> Iterator[Callable[[], None]]:
    """Gives a function to call after each of `steps` steps."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(label, total=steps)
            yield lambda: bar.advance(task)
        return
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if done * 10 // steps > (done - 1) * 10 // steps:
            print(f"{label}: {done * 100 // steps}%", file=sys.stderr)

    yield tick


class Bar:
    """A training run as it goes: records of its log in, speed, loss and time left out.

    How far it is along is by updates or by minutes, whichever ends it first.
    """

    def __init__(
        self, label: str, steps: int, done: int, minutes: float | None, seconds: float
    ) -> None:
        self._steps, self._minutes = steps, minutes
        self._console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[news]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(label, total=1.0, news="")
        self._bar.update(self._task, completed=self._share(done, seconds))

    def _share(self, step: int, seconds: float) -> float:
        by_time = seconds / (60 * self._minutes) if self._minutes else 0.0
        return max(step / self._steps, by_time)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def record(self, record: dict[str, Any]) -> None:
        """Show a record of the log: training records in the bar, validations as lines."""
        news = line(record)
        share = self._share(record["step"], record["seconds"])
        self._bar.update(self._task, completed=share, news=news if "train_loss" in record else "")
        if not self._console.is_terminal or "valid_loss" in record:
            left = record["seconds"] / share * (1 - share) if share < 1 else 0.0
            self._console.print(
                f"{record['step']:>7,}  {news}  ({left / 60:.1f} min left)", soft_wrap=True
            )


def line(record: dict[str, Any]) -> str:
    """A record in words."""
    if "train_loss" in record:
        return (
            f"loss {record['train_loss']:.3f}  {record['labels_per_second']:,.0f} tokens/s  "
            f"norm {record['gradient_norm']:.2f}  rate {record['learning_rate']:.1e}"
            + ("  final text" if record.get("final") else "")
        )
    shown = {
        "loss": "loss {:.3f}",
        "perplexity": "perplexity {:.2f}",
        "accuracy": "accuracy {:.2f}%",
        "encoder_accuracy": "of the encoder {:.2f}%",
        "ngrams_accuracy": "of the n-grams {:.2f}%",
        "bleu": "bleu {:.2f}",
    }
    scores = [
        form.format(record[f"valid_{name}"])
        for name, form in shown.items()
        if f"valid_{name}" in record
    ]
    by_set = "valid_bleu/"
    scores += [f"{name[len(by_set) :]} {v:.1f}" for name, v in record.items() if by_set in name]
    return "valid  " + "  ".join(scores) + ("  best" if record["best"] else "")


@contextmanager
def fetching() -> Iterator[Callable[[str, int, int | None], None]]:
    """Downloads and preparations: how much is done of each, ten times a second at most."""
    tasks: dict[str, TaskID] = {}
    shown = 0.0
    with Progress(console=Console(stderr=True)) as bar:

        def show(what: str, done: int, total: int | None) -> None:
            nonlocal shown
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            if monotonic() - shown > 0.1 or done == total:
                shown = monotonic()
                bar.update(tasks[what], completed=done, total=total)

        yield show
