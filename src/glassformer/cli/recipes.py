"""`glassformer recipes`: list the recipes of the package, or print one."""

from textwrap import fill
from typing import Annotated

import typer

from glassformer import recipes as package
from glassformer.errors import SettingsError, did_you_mean
from glassformer.progress import columns


def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="Print this one.", show_default=False)
    ] = None,
) -> None:
    """List the recipes of the package, or print one as TOML, to be saved and changed."""
    if name is None:
        width = max(map(len, package.names()))
        for one in package.names():
            rest = " " * (width + 2)
            about = fill(
                package.about(one), columns(100), initial_indent=rest, subsequent_indent=rest
            )
            print(one + about[len(one) :])
        print(f"\n{NEXT}")
        return
    if name not in package.names():
        raise SettingsError(
            f"There is no recipe {name!r}.",
            f"The recipes of the package are {', '.join(package.names())}.",
            did_you_mean(name, package.names(), "List them: glassformer recipes."),
        )
    print(package.text(name).decode(), end="")


NEXT = """\
glassformer train RECIPE              train one
glassformer recipes RECIPE > my.toml  start your own from it
glassformer train --translate FILE    your own pairs
glassformer train --classify FILE     your texts and labels"""
