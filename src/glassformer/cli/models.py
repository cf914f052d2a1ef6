"""`glassformer models`: the models that come with Glassformer, and their cards."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer import pretrained
from glassformer.errors import CheckpointError

WIDTH = 100  # columns of a card, at most: longer lines are hard to read


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Print the card of this model.", show_default="list all"
        ),
    ] = None,
) -> None:
    """List the models that come with Glassformer, or print the card of one.

    A command that takes a run also takes the name of a bundled model. A folder of that name has
    precedence.
    """
    if name is None:
        _list()
    else:
        _show(pretrained.card(name))


def default(name: str, own: str) -> Path:
    """Return the folder of a bundled model; `own` is the remedy of the error if it is missing."""
    if name not in pretrained.names():
        raise CheckpointError(
            f"No model is named, and {name} does not come with this copy of Glassformer.",
            "A complete installation has it in the package.",
            f"Name a run: {own}",
        )
    return pretrained.folder(name)


def _list() -> None:
    names = pretrained.names()
    if not names:
        raise CheckpointError(
            "No model comes with this copy of Glassformer.",
            "A complete installation has them in the package.",
            "Install the package again, or train your own model: glassformer demo.",
        )
    for number, name in enumerate(names):
        kind, facts = pretrained.settings(name).model.kind, pretrained.facts(name)
        size = f"{pretrained.size(name) / 1e6:.1f} MB"
        print("\n" * (number > 0) + f"{name}: {pretrained.title(name)}")
        print("  " + ", ".join(filter(None, [kind, pretrained.direction(name), size])))
        for fact, value in facts.items():
            print(f"  {fact}: {value}")


def _show(card: str) -> None:
    """Print a card: formatted on a terminal, as Markdown elsewhere."""
    if not sys.stdout.isatty():
        print(card, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(card), width=min(console.width, WIDTH))
