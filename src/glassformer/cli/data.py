"""`glassformer data`: which sets there are, getting them, and what a recipe makes of one."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from glassformer.cli import options as o
from glassformer.cli.progress import fetching
from glassformer.cli.train import counts, losses, prepared, read_recipe

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Named sets lie in $GLASSFORMER_DATA or in your cache, or are downloaded into it."""


@app.command("list")
def list_sets() -> None:
    """The named sets, and the data that is embedded."""
    from glassformer.data import datasets, tasks

    table = Table("name", "what", "splits", "terms")
    for name in datasets.names():
        sheet = datasets.manifest(name)
        table.add_row(name, sheet.title, ", ".join(sheet.splits), sheet.licence)
    table.add_row(
        "grammar", "English and French with word alignments, embedded", "train, valid, test", ""
    )
    table.add_row(", ".join(tasks.TASKS), "synthetic tasks, made up as needed", "train, valid", "")
    Console(width=110).print(table)


@app.command()
def get(name: Annotated[str, typer.Argument(help="A set that `data list` shows.")]) -> None:
    """Find a set's files, or download them; check every one."""
    from glassformer.data import datasets

    with fetching() as progress:
        found = datasets.get(name, progress)
    for split, files in found.items():
        print(f"{split}: {files}")


@app.command()
def show(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="[SECTION.NAME=VALUE]...")] = None,
    skip_bad: o.SkipBad = False,
    examples: Annotated[int, typer.Option(min=0, help="Examples to print.")] = 3,
) -> None:
    """Prepare a recipe's data and tell of it: examples, subwords, lengths, batches, padding."""
    from glassformer.data.batching import TokenBatches

    settings = read_recipe(recipe, changes or [], skip_bad)
    data = prepared(settings)
    lengths = data.train.epoch(settings.train.seed, 0).lengths
    batches = TokenBatches(lengths, settings.data.batch_tokens, settings.train.seed)
    epoch = batches.epoch(0)
    print(f"examples    {counts(data)}")
    for fate, text in losses(data):
        print(f"{fate:<11} {text}")
    for side, tokenizer in data.tokenizers.items():
        print(f"subwords    {len(tokenizer):,} ({side}, {settings.data.subwords})")
    print(f"tokens      {' + '.join(f'{n:,}' for n in lengths.sum(0))} in an epoch")
    print(f"lengths     {' and '.join(f'{n:.1f}' for n in lengths.mean(0))} on average")
    print(f"batches     {len(epoch):,} of at most {settings.data.batch_tokens:,} tokens a side")
    print(f"padding     {batches.padding(epoch).share:.1%}")
    for row in data.valid_rows[:examples]:
        print("\n" + "\n".join(f"  {text}" for text in row))
