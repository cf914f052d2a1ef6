"""Long work: a bar with the time left on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


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
