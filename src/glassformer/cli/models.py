"""`glassformer models`: the models that come with Glassformer, and their cards."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer import pretrained
from glassformer.errors import CheckpointError

WIDTH = 100  # of a card on a wide terminal: longer lines are hard to read


def models(
    name: Annotated[
        str | None, typer.Argument(help="The one to read about. [all of them, a row each]")
    ] = None,
) -> None:
    """List the models that come with Glassformer, or print the card of one.

    Wherever a command takes a run, it takes such a name as well; a folder so called comes first.
    """
    if name is None:
        _list()
    else:
        _show(pretrained.card(name))


def default(name: str, own: str) -> Path:
    """The bundled model that is used where none is named; `own` is what to do if it is missing."""
    if name not in pretrained.names():
        raise CheckpointError(
            f"No model is named, and {name} does not come with this copy of Glassformer.",
            "It lies in the package when that is installed whole.",
            f"Name a run: {own}",
        )
    return pretrained.folder(name)


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    names = pretrained.names()
    if not names:
        raise CheckpointError(
            "No model comes with this copy of Glassformer.",
            "They lie in the package when that is installed whole.",
            "Install it anew; or train one of your own: glassformer demo.",
        )
    table = Table("name", "kind", "MB", "what it does")
    for name in names:
        kind, size = pretrained.settings(name).model.kind, pretrained.size(name) / 1e6
        table.add_row(name, kind, f"{size:.1f}", pretrained.title(name))
    Console(width=110).print(table)


def _show(card: str) -> None:
    """Laid out on a terminal; elsewhere as it was written."""
    if not sys.stdout.isatty():
        print(card, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(card), width=min(console.width, WIDTH))
