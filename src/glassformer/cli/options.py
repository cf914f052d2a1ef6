"""Options that several verbs share, and checks of options that exclude or need each other."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer.errors import SettingsError
from glassformer.output import save_text
from glassformer.progress import say

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Folder of a run or checkpoint, or a bundled model: see `models`."
    ),
]
Recipe = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A recipe of `glassformer recipes`, a TOML file, or the folder of a run.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SECTION.NAME=VALUE",
        help="Settings to change, such as train.max_steps=1000.",
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help="Texts to read.",
        show_default="the lines of --file or of standard input",
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", "-f", metavar="FILE", help="Read the lines of this file; .gz is unpacked."
    ),
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the figures as JSON.")
]
Markdown = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.")
]
Int8 = Annotated[
    bool,
    typer.Option(
        "--int8",
        help="Compute in 8 bits: smaller and faster; output may differ slightly from fp32.",
        show_default="as the model is stored",
    ),
]
Int8Weights = Annotated[
    bool, typer.Option("--int8", help="Round the weights to 8 bits, as `quantize` does.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Threads to use, at most.", show_default="all processors"
    ),
]
TorchThreads = Annotated[int, typer.Option(min=1, metavar="N", help="Threads of torch.")]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="cpu, cuda, cuda:1 or mps; auto takes the best one. On a GPU the torch model runs.",
    ),
]
TrainDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="auto, cpu, cuda, cuda:1 or mps; auto takes the best one there is.",
        show_default="train.device of the recipe, which is auto",
    ),
]
BatchTokens = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Tokens in a batch. More is faster and takes more memory."
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(
        "--beam",
        "-b",
        min=1,
        metavar="N",
        help="Beam size of the search; 1 is greedy.",
        show_default="5",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        "-t",
        metavar="LANGUAGE",
        help="Target language of a model of two directions: fr or en.",
        show_default="the other language of each text",
    ),
]
MainTo = Annotated[
    str | None,
    typer.Option(
        "--to",
        "-t",
        metavar="LANGUAGE",
        help="Target language of a model of two directions.",
        show_default="the first one it was trained for",
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
    typer.Option(
        min=1, metavar="N", help="Print the N best per line, as `index ||| text ||| score`."
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        metavar="ALPHA",
        help="Exponent of the length penalty: larger favours longer output, 0 is none.",
        show_default="the model's own, or 0.6",
    ),
]
MinLength = Annotated[int, typer.Option(min=0, metavar="N", help="Shortest output, in subwords.")]
NoRepeatNgram = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Never repeat a sequence of N subwords; 0 allows all."),
]
RepetitionPenalty = Annotated[
    float,
    typer.Option(
        min=1.0, metavar="X", help="Penalty on subwords that are in the output already; 1 is none."
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        metavar="T",
        help="Temperature of sampling: below 1 likely tokens become likelier.",
        show_default="1",
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(metavar="K", help="Sample from the K likeliest tokens.", show_default="all"),
]
TopP = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Sample from the likeliest tokens with total probability P.",
        show_default="1",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**64 - 1,
        metavar="N",
        help="Random seed of sampling, up to 64 bits.",
        show_default="0",
    ),
]

# Data that a model is evaluated on

Source = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Texts, one per line, whose --reference is known."),
]
Reference = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Reference translations of --source, one per line."),
]
Table = Annotated[
    Path | None,
    typer.Option("--data", metavar="FILE", help="Or one JSONL, TSV or CSV file of both."),
]
Columns = Annotated[
    str,
    typer.Option(
        metavar="A,B",
        help="Columns of --data or --set, by name or number from 1.",
        show_default="the model's languages, or text,label",
    ),
]
Set = Annotated[
    str | None, typer.Option("--set", metavar="NAME", help="Or a named set: see `data list`.")
]
Split = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Split of --set.", show_default="valid"),
]
Limit = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Read the first N rows.", show_default="all")
]


def only_with(partner: str, there: bool, **options: object) -> None:
    """Refuse `options` that have no effect because `partner` is not given."""
    for name, value in options.items():
        if value is not None and not there:
            raise SettingsError(
                f"{_flag(name)} goes with {partner} only.",
                "Without it the option has no effect.",
                f"Add {partner}, or leave {_flag(name)} out.",
            )


def different(**places: Path | None) -> None:
    """Refuse options that would write one file over another."""
    taken: dict[Path, str] = {}
    for name, path in places.items():
        if path and (other := taken.setdefault(path.resolve(), name)) != name:
            raise SettingsError(
                f"{_flag(other)} and {_flag(name)} are both {path}.",
                "The second file would replace the first.",
                f"Give {_flag(name)} another name.",
            )


def not_with(partner: str, there: bool, why: str, **options: object) -> None:
    """Refuse `options` that contradict `partner`."""
    for name, value in options.items():
        if value is not None and there:
            raise SettingsError(
                f"{_flag(name)} does not go with {partner}.", why, "Leave one of them out."
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def columns_of(text: str) -> tuple[str, ...]:
    """Return the names of `--columns A,B`."""
    return tuple(filter(None, text.split(",")))


def written_command() -> str:
    """Return the command line as it was typed, for reports that quote it."""
    return shlex.join(["glassformer", *sys.argv[1:]])


def save(path: Path, content: str) -> None:
    """Write a file and tell where it is."""
    save_text(path, content)
    say(f"written: {path}")
