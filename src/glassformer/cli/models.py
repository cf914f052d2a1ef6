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
        str | None, typer.Argument(help="The one to read about. [a few lines on each]")
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
    names = pretrained.names()
    if not names:
        raise CheckpointError(
            "No model comes with this copy of Glassformer.",
            "They lie in the package when that is installed whole.",
            "Install it anew; or train one of your own: glassformer demo.",
        )
    for number, name in enumerate(names):
        kind, facts = pretrained.settings(name).model.kind, pretrained.facts(name)
        size = f"{pretrained.size(name) / 1e6:.1f} MB"
        print("\n" * (number > 0) + f"{name}: {pretrained.title(name)}")
        print("  " + ", ".join(filter(None, [kind, pretrained.direction(name), size])))
        for fact, value in facts.items():
            print(f"  {fact}: {value}")


def _show(card: str) -> None:
    """Laid out on a terminal; elsewhere as it was written."""
    if not sys.stdout.isatty():
        print(card, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(card), width=min(console.width, WIDTH))
