"""`glassformer data`: list and get named sets, show what a recipe reads, clean parallel text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from glassformer.cli import options as o
from glassformer.cli.progress import fetching
from glassformer.cli.train import counts, losses, prepared, read_recipe

if TYPE_CHECKING:
    from glassformer.data.mixture import Mixture

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
    run_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Target tokens of the planned run, for the passes over each source. "
            "[train.max_steps of one process; an epoch, if train.max_minutes ends the run]",
        ),
    ] = None,
) -> None:
    """Prepare a recipe's data and describe it: sources, subwords, lengths, batches, padding."""
    from glassformer.data.batching import TokenBatches
    from glassformer.data.mixture import Mixture

    settings = read_recipe(recipe, changes or [], skip_bad)
    data = prepared(settings)
    lengths = data.train.epoch(settings.train.seed, 0).lengths
    batches = TokenBatches(lengths, settings.data.batch_tokens, settings.train.seed)
    epoch = batches.epoch(0)
    tokens = int(lengths[:, -1].sum())
    if run_tokens is None and settings.train.max_minutes is None:
        updates = settings.train.max_steps * settings.train.accumulate
        run_tokens = tokens * updates // len(epoch)
    print(f"examples    {counts(data)}")
    for fate, text in losses(data):
        print(f"{fate:<11} {text}")
    for side, tokenizer in data.tokenizers.items():
        print(f"subwords    {len(tokenizer):,} ({side}, {settings.data.subwords})")
    print(f"tokens      {' + '.join(f'{n:,}' for n in lengths.sum(0))} in an epoch")
    print(f"lengths     {' and '.join(f'{n:.1f}' for n in lengths.mean(0))} on average")
    print(f"batches     {len(epoch):,} of at most {settings.data.batch_tokens:,} tokens a side")
    print(f"padding     {batches.padding(epoch).share:.1%}")
    if isinstance(data.train, Mixture):
        _show_sources(data.train, run_tokens or tokens)
    for row in data.valid_rows[:examples]:
        print("\n" + "\n".join(f"  {text}" for text in row))


def _show_sources(mixture: "Mixture", tokens: int) -> None:
    """A table: how large each source is, and how often a run of so many tokens reads it."""
    from glassformer.data.mixture import passes

    total = sum(source.weight for source in mixture.sources)
    often = passes(mixture, tokens)
    print(f"\nsources     of a run of {tokens:,} target tokens\n")
    print(f"  {'name':<12} {'pairs':>9} {'tokens':>11} {'weight':>7} {'passes':>7}  used")
    for source in mixture.sources:
        used = "" if (source.begin, source.end) == (0, 1) else f"{source.begin:g} to {source.end:g}"
        print(
            f"  {source.name:<12} {len(source.examples):>9,} {source.tokens:>11,.0f} "
            f"{source.weight / total:>7.1%} {often[source.name]:>7.2f}  {used}".rstrip()
        )


@app.command()
def clean(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A file per side, or one TSV, CSV or JSONL file."),
    ],
    output: Annotated[Path, typer.Option(help="Write the kept pairs here, as TSV.")],
    columns: Annotated[
        list[str] | None, typer.Option(help="Of a table: name or number, once per side.")
    ] = None,
    dropped: Annotated[
        Path | None, typer.Option(help="Write the dropped pairs here, as TSV: rule and sides.")
    ] = None,
    skip_bad: o.SkipBad = False,
) -> None:
    """Drop pairs that break a rule: length, ratio, language, numbers, duplicates and others."""
    from glassformer.data.clean import clean_files

    report = clean_files(files, columns or [], output, dropped, skip_bad)
    print(
        f"{report.rows:,} pairs read, {report.rows - report.dropped.total():,} written to {output}"
    )
    for rule, count in report.dropped.most_common():
        print(f"  {rule:<10} {count:>9,} dropped")
    if dropped is not None:
        print(f"dropped pairs: {dropped}")
