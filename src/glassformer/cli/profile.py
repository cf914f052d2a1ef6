"""`glassformer profile`: time and memory of each part of decoding."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glassformer.bench.report import WIDTH
from glassformer.cli import options as o
from glassformer.extras import require_torch
from glassformer.progress import columns


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="Folder of a run, a bundled model, or a preset, which gets random weights.",
        ),
    ],
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sentences to translate, one per line.",
            show_default="the embedded grammar",
        ),
    ] = None,
    beam: Annotated[
        int, typer.Option(min=1, metavar="N", help="Beam size of the search; 1 is greedy.")
    ] = 5,
    threads: o.TorchThreads = 2,
    device: o.Device = "cpu",
    sentences: Annotated[
        int, typer.Option(min=1, metavar="N", help="Sentences to translate, at most.")
    ] = 64,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a trace of a few steps, for Perfetto."),
    ] = None,
    json: o.Json = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use toy sizes, to test the command itself in seconds.")
    ] = False,
) -> None:
    """Measure time and memory of each part of decoding, latency, and the cost of a token.

    The torch model is profiled, in fp32; `bench decode` measures the compiled engine.
    """
    require_torch("glassformer profile")
    from glassformer.api import profile as api

    found = api.profile(
        model,
        source,
        beam_size=beam,
        threads=threads,
        device=device,
        sentences=sentences,
        quick=quick,
        command=o.written_command(),
    )
    found.report.show(Console(width=columns(WIDTH), highlight=False))
    if json is not None:
        found.report.save(json)
        print(f"written to {json}")
    if trace is not None:
        found.write_trace(trace)
        print(f"trace written to {trace}: open it in https://ui.perfetto.dev or about:tracing")
