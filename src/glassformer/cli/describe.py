"""`glassformer describe`: parts, shapes, parameters and FLOPs of a preset."""

from typing import Annotated

import typer

from glassformer.config import PRESETS, parse_changes, preset
from glassformer.extras import require_torch


def describe(
    name: Annotated[str, typer.Argument(metavar="PRESET", help=f"One of {', '.join(PRESETS)}.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Settings to change, such as n_heads=8."),
    ] = None,
    length: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Tokens that each token attends to, for the FLOPs."),
    ] = 24,
    toml: Annotated[
        bool, typer.Option("--toml", help="Print the settings as TOML instead.")
    ] = False,
) -> None:
    """Print a preset's parts, shapes, parameters and FLOPs per token."""
    settings = preset(name, **parse_changes(changes or []))
    if toml:
        print(settings.to_toml(), end="")
        return
    require_torch("glassformer describe")

    from glassformer.model.build import build
    from glassformer.model.describe import describe

    print(describe(build(settings), length))
