"""`glassformer data`: list and get named sets, describe a recipe's data, clean parallel text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from glassformer.api.prepared import counts, losses, prepared
from glassformer.cli import options as o
from glassformer.cli.train import read_recipe
from glassformer.cli.verb import Verb
from glassformer.progress import columns, fetching

if TYPE_CHECKING:
    from glassformer.data.mixture import Mixture

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """List, get and describe data. Named sets are looked for in $GLASSFORMER_DATA and the cache."""


@app.command("list", cls=Verb)
def list_sets() -> None:
    """List the named sets and the embedded data."""
    from glassformer.data import datasets, tasks

    table = Table("name", "what", "splits", "terms")
    for name in datasets.names():
        sheet = datasets.manifest(name)
        table.add_row(name, sheet.title, ", ".join(sheet.splits), sheet.licence)
    table.add_row(
        "grammar", "English and French with word alignments, embedded", "train, valid, test", ""
    )
    table.add_row(
        ", ".join(tasks.TASKS), "synthetic tasks, generated when needed", "train, valid", ""
    )
    Console(width=columns(110)).print(table)


@app.command(cls=Verb)
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a set: see `data list`.")],
) -> None:
    """Find or download the files of a set, and check them."""
    from glassformer.data import datasets

    with fetching() as progress:
        found = datasets.get(name, progress)
    for split, files in found.items():
        print(f"{split}: {files}")


@app.command(cls=Verb)
def show(
    recipe: o.Recipe,
    changes: o.Changes = None,
    skip_bad: o.SkipBad = False,
    examples: Annotated[int, typer.Option(min=0, metavar="N", help="Examples to print.")] = 3,
    run_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Target tokens of the planned run, to count the passes over each source.",
            show_default="those of train.max_steps; an epoch with train.max_minutes",
        ),
    ] = None,
) -> None:
    """Prepare the data of a recipe and describe it.

    Print its sources, subwords, lengths, batches, padding and some examples.
    """
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
    """Print the size of each source, and how often a run of `tokens` target tokens reads it."""
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


@app.command(cls=Verb)
def clean(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="A file per side, or one TSV, CSV or JSONL file."),
    ],
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Write the kept pairs here, as TSV.")
    ],
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Column of a table, by name or number; once per side."),
    ] = None,
    dropped: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the dropped pairs as TSV: rule, then both sides."),
    ] = None,
    skip_bad: o.SkipBad = False,
) -> None:
    """Drop bad pairs of parallel text.

    Rules are about length, ratio of lengths, language, numbers, duplicates and others.
    """
    from glassformer.data.clean import clean_files

    report = clean_files(files, columns or [], output, dropped, skip_bad)
    print(
        f"{report.rows:,} pairs read, {report.rows - report.dropped.total():,} written to {output}"
    )
    for rule, count in report.dropped.most_common():
        print(f"  {rule:<10} {count:>9,} dropped")
    if dropped is not None:
        print(f"dropped pairs: {dropped}")
