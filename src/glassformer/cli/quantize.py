"""`glassformer quantize`: write a checkpoint in eight bits, and compare it."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as o
from glassformer.cli.examples import Choice


def quantize(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or of a checkpoint.")],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to write.",
            show_default="RUN/int8, or int8 beside a checkpoint",
        ),
    ] = None,
    source: o.Source = None,
    reference: o.Reference = None,
    data: o.Table = None,
    columns: o.Columns = "",
    name: o.Set = None,
    split: o.Split = None,
    limit: o.Limit = None,
    skip_bad: o.SkipBad = False,
    beam: o.Beam = None,
    truncate: o.Truncate = False,
    threads: o.Threads = None,
) -> None:
    """Write RUN's best checkpoint in eight bits: smaller, faster, and it loads like any other.

    With data the two are compared: scores, outputs that changed, and outputs that depend on the
    batch. A quantised checkpoint at --output is replaced; its CARD.md stays.
    """
    compared = any((source, reference, data, name))
    given = {"columns": columns or None, "split": split, "limit": limit, "beam": beam}
    flags = {"skip_bad": skip_bad or None, "truncate": truncate or None}
    o.only_with("--source, --data or --set", compared, **given, **flags)
    chosen = None
    if compared:
        chosen = Choice(source, reference, data, columns, name, split, limit, skip_bad)

    from glassformer.api.quantize import quantize as quantized
    from glassformer.evaluate.examples import VALID

    done = quantized(
        run, output, chosen.data() if chosen else None, split=split or VALID,
        columns=o.columns_of(columns), limit=limit, skip_bad=skip_bad, beam_size=beam,
        truncate=truncate or None, threads=threads,
    )  # fmt: skip
    print(done)
