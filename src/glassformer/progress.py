"""Progress of long work: a bar in a terminal and in a notebook, plain lines elsewhere."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from html import escape
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

MIN_COLUMNS = 60  # narrower tables would have a letter to a line

Watch = Callable[[str, int], AbstractContextManager[Callable[[], None]]]  # label, steps → tick
Fetching = Callable[[str, int, int | None], None]  # what, units done, units in all


def say(text: str) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr, flush=True)


def silent(text: str) -> None:
    """Print nothing: the `say` of a caller who wants no output."""


def columns(most: int) -> int:
    """Return how many columns a table may have: those of the terminal, from 60 up to `most`.

    Where there is no terminal it is `most`, unless $COLUMNS says otherwise.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal():
        there = int(given)
    else:
        there = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else most
    return max(MIN_COLUMNS, min(most, there))


class NotebookBar:
    """One line of a notebook's output: a label, a bar and a text, replaced at each update."""

    def __init__(self, label: str) -> None:
        from IPython.display import DisplayHandle

        self._label, self._handle = label, DisplayHandle()
        self._handle.display(self._html(0.0, ""))

    def update(self, share: float, text: str = "") -> None:
        self._handle.update(self._html(share, text))

    def _html(self, share: float, text: str) -> object:
        from IPython.display import HTML

        bar = f'<progress value="{share:.4f}" max="1"></progress>'
        return HTML(f"<div>{escape(self._label)} {bar} {share:.0%} {escape(text)}</div>")


@contextmanager
def progress(label: str, steps: int, shown: bool = True) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of `steps` steps; show nothing unless `shown`."""
    console = Console(stderr=True)
    if shown and console.is_terminal:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(label, total=steps)
            yield lambda: bar.advance(task)
        return
    notebook = NotebookBar(label) if shown and console.is_jupyter else None
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if notebook is not None:
            notebook.update(done / steps)
        elif shown and done * 10 // steps > (done - 1) * 10 // steps:
            say(f"{label}: {done * 100 // steps}%")

    yield tick


class Bar:
    """The progress of a training run: speed, loss and time left, from the records of its log.

    The share done is by updates or by minutes, whichever ends the run first.
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
        self._notebook = NotebookBar(label) if self._console.is_jupyter else None

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
        if self._notebook is not None:
            self._notebook.update(min(share, 1.0), news)
        if not (self._console.is_terminal or self._notebook) or "valid_loss" in record:
            left = record["seconds"] / share * (1 - share) if share < 1 else 0.0
            text = f"{record['step']:>7,}  {news}  ({left / 60:.1f} min left)"
            if self._notebook is not None:
                say(text)
            else:
                self._console.print(text, soft_wrap=True)


def line(record: dict[str, Any]) -> str:
    """Return a record of the log as one line of text."""
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
    known = {*(f"valid_{name}" for name in shown)}
    scores += [
        f"{name.removeprefix('valid_')} {value:.2f}"
        for name, value in record.items()
        if name.startswith("valid_") and "/" not in name and name not in known
    ]  # of a registered metric
    by_set = "valid_bleu/"
    scores += [f"{name[len(by_set) :]} {v:.1f}" for name, v in record.items() if by_set in name]
    return "valid  " + "  ".join(scores) + ("  best" if record["best"] else "")


@contextmanager
def fetching() -> Iterator[Fetching]:
    """Show how much of each download or preparation is done, at most ten times a second."""
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


@contextmanager
def watched_fetching() -> Iterator[Fetching]:
    """`fetching`, with nothing on the screen unless something is fetched."""
    with ExitStack() as stack:
        bars: list[Fetching] = []

        def watch(what: str, done: int, total: int | None) -> None:
            if not bars:
                bars.append(stack.enter_context(fetching()))
            bars[0](what, done, total)

        yield watch
