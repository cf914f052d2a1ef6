"""Options that several verbs have, and what is said of those that do not go together."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.errors import SettingsError

Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="[the lines of --file, or of standard input]"),
]
File = Annotated[Path | None, typer.Option(help="Read the lines of this file, gzipped or not.")]
Int8 = Annotated[
    bool,
    typer.Option(
        "--int8",
        help="Compute in eight bits: smaller and faster. Answers may differ slightly from those "
        "in fp32. [as the model is stored]",
    ),
]
Int8Weights = Annotated[
    bool, typer.Option("--int8", help="Round the weights to eight bits, as `quantize` does.")
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads, at most. [all that the process may use]")
]
TorchThreads = Annotated[int, typer.Option(min=1, help="Threads of torch.")]
BatchTokens = Annotated[
    int, typer.Option(min=1, help="Tokens of a batch: more are faster, and take more memory.")
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="LANGUAGE",
        help="Target language of a model of two directions, such as fr or en. "
        "[guessed from each text]",
    ),
]
MainTo = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="LANGUAGE",
        help="Target language of a model of two directions. [its main one]",
    ),
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Cut texts that are too long for the model.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that are empty or cannot be read.")
]
NBest = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Up to N answers a line: its index ||| text ||| score."),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="More favours length; 0 does not. [0.6, or a translator's own]"),
]
MinLength = Annotated[int, typer.Option(min=0, help="Of an answer, in subwords.")]
NoRepeatNgram = Annotated[
    int, typer.Option(min=0, metavar="N", help="No N subwords in a row twice.")
]
RepetitionPenalty = Annotated[
    float, typer.Option(min=1.0, help="On subwords said before; 1 is none.")
]
Temperature = Annotated[
    float | None, typer.Option(help="Of what is drawn: below 1 bolder guesses are rarer. [1]")
]
TopK = Annotated[int | None, typer.Option(metavar="K", help="Draw from the K likeliest. [all]")]
TopP = Annotated[
    float | None, typer.Option(metavar="P", help="Draw from the likeliest that make up P. [1]")
]
Seed = Annotated[
    int | None, typer.Option(min=0, max=2**64 - 1, help="Of what is drawn, up to 64 bits. [0]")
]


def only_with(partner: str, there: bool, **options: object) -> None:
    """Refuse those of `options` that would be passed over because `partner` is not there."""
    for name, value in options.items():
        if value is not None and not there:
            raise SettingsError(
                f"{_flag(name)} goes with {partner} only.",
                "Without it there is nothing that it could change.",
                f"Add {partner}, or leave {_flag(name)} out.",
            )


def different(**places: Path | None) -> None:
    """Refuse options that would write one file over another."""
    taken: dict[Path, str] = {}
    for name, path in places.items():
        if path and (other := taken.setdefault(path.resolve(), name)) != name:
            raise SettingsError(
                f"{_flag(other)} and {_flag(name)} are both {path}.",
                "The second would take the place of the first.",
                f"Give {_flag(name)} another name.",
            )


def not_with(partner: str, there: bool, why: str, **options: object) -> None:
    """Refuse those of `options` that contradict `partner`."""
    for name, value in options.items():
        if value is not None and there:
            raise SettingsError(
                f"{_flag(name)} does not go with {partner}.", why, "Leave one of them out."
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
