"""`glassformer profile`: time and memory of each part of decoding."""

import shlex
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as o
from glassformer.cli.bench import print_tables
from glassformer.config import PRESETS
from glassformer.errors import SettingsError
from glassformer.extras import require_torch
from glassformer.progress import progress

if TYPE_CHECKING:
    from glassformer.bench.profile import Subject

QUICK = 4  # tokens of an output with --quick, which tests the command itself


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
    import torch

    from glassformer.bench.profile import Plan, profile_decoding, write_trace

    torch.set_num_threads(threads)
    plan = Plan.quick(sentences) if quick else Plan(sentences)
    subject = _subject(model, source, plan.sentences, beam, device)
    subject = subject.shortened(QUICK) if quick else subject
    plan = plan.fitting(subject)
    command: list[object] = ["glassformer", "profile", model, "--beam", beam, "--threads", threads]
    command += [] if device == "cpu" else ["--device", device]
    command += ["--sentences", sentences, *["--quick"] * quick]
    command += ["--source", source] if source else []
    with progress("measuring", plan.steps) as tick:
        report = profile_decoding(subject, plan, shlex.join(map(str, command)), tick)
    print_tables(report)
    if json is not None:
        report.save(json)
        print(f"written to {json}")
    if trace is not None:
        write_trace(subject, trace)
        print(f"trace written to {trace}: open it in https://ui.perfetto.dev or about:tracing")


def _subject(name: str, source: Path | None, count: int, beam: int, device: str) -> "Subject":
    from glassformer.bench.profile import preset_subject, run_subject
    from glassformer.device import resolve

    if name not in PRESETS:
        from glassformer.pipeline import load_translator

        translator = load_translator(name, engine="torch", device=device)
        return run_subject(name, translator, _texts(source, count), beam)
    if source is not None:
        raise SettingsError(
            f"{name} cannot read {source}.",
            "A preset has random weights and no subwords.",
            "Leave --source out, or name a trained model.",
        )
    return preset_subject(name, count, beam, resolve(device))


def _texts(source: Path | None, count: int) -> list[str]:
    """Return lines of a file, without empty ones, or sentences of the embedded grammar."""
    from glassformer.data import grammar
    from glassformer.data.corpus import Corpus, TextFiles

    if source is None:
        return [pair.source for pair in grammar.pairs("test", count)]
    corpus = Corpus(TextFiles((source,), format="lines"), skip_bad=True)
    return [text for (text,) in islice(corpus, count)]
