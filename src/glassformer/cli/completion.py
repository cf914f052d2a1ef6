"""`glassformer completion`: a script that completes verbs, options and names in a shell."""

from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from glassformer.errors import SettingsError, did_you_mean

SHELLS = {
    "bash": 'eval "$(glassformer completion bash)"             # in ~/.bashrc',
    "zsh": 'eval "$(glassformer completion zsh)"              # in ~/.zshrc, after compinit',
    "fish": "glassformer completion fish | source              # in ~/.config/fish/config.fish",
}


def completion(
    shell: Annotated[
        str | None,
        typer.Argument(metavar="SHELL", help=f"One of {', '.join(SHELLS)}.", show_default=False),
    ] = None,
) -> None:
    """Print a script that completes verbs and options; without SHELL, how to load it."""
    if shell is None:
        print("\n".join(SHELLS.values()))
    elif shell in SHELLS:
        from glassformer.cli.app import VARIABLE

        print(get_completion_script(prog_name="glassformer", complete_var=VARIABLE, shell=shell))
    else:
        raise SettingsError(
            f"There is no completion for {shell!r}.",
            f"There is one for {', '.join(SHELLS)}.",
            did_you_mean(shell, SHELLS, "glassformer completion bash"),
        )
