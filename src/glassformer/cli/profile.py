"""`glassformer profile`: where the time and the memory of decoding go."""

import shlex
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as o
from glassformer.cli.bench import print_tables
from glassformer.cli.progress import progress
from glassformer.config import PRESETS
from glassformer.errors import SettingsError
from glassformer.extras import require_torch

if TYPE_CHECKING:
    from glassformer.bench.profile import Subject

QUICK = 4  # tokens of an answer when nothing but the command itself is tested


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A run, a bundled model, or a preset, which is given random weights.",
        ),
    ],
    source: Annotated[
        Path | None, typer.Option(help="Sentences to translate, one a line. [built-in ones]")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses side by side; 1 is greedy.")] = 5,
    threads: o.TorchThreads = 2,
    sentences: Annotated[int, typer.Option(min=1, help="How many sentences.")] = 64,
    trace: Annotated[
        Path | None, typer.Option(help="Where a trace of a few steps goes, for Perfetto.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Where the figures go as JSON.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Toy sizes in seconds: a test of the command itself.")
    ] = False,
) -> None:
    """Time and memory of each part of decoding, latency, and what one more token costs.

    The torch model is profiled, in fp32; `bench decode` measures the compiled engine.
    """
    require_torch("glassformer profile")
    import torch

    from glassformer.bench.profile import Plan, profile_decoding, write_trace

    torch.set_num_threads(threads)
    plan = Plan.quick(sentences) if quick else Plan(sentences)
    subject = _subject(model, source, plan.sentences, beam)
    subject = subject.shortened(QUICK) if quick else subject
    plan = plan.fitting(subject)
    command: list[object] = ["glassformer", "profile", model, "--beam", beam, "--threads", threads]
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


def _subject(name: str, source: Path | None, count: int, beam: int) -> "Subject":
    from glassformer.bench.profile import preset_subject, run_subject

    if name not in PRESETS:
        from glassformer.pipeline import load_translator

        translator = load_translator(name, engine="torch")
        return run_subject(name, translator, _texts(source, count), beam)
    if source is not None:
        raise SettingsError(
            f"{name} cannot read {source}.",
            "A preset has random weights and no subwords.",
            "Leave --source out, or name a trained model.",
        )
    return preset_subject(name, count, beam)


def _texts(source: Path | None, count: int) -> list[str]:
    """Lines of a file, empty ones left out; without a file, sentences of the embedded grammar."""
    from glassformer.data import grammar
    from glassformer.data.corpus import Corpus, TextFiles

    if source is None:
        return [pair.source for pair in grammar.pairs("test", count)]
    corpus = Corpus(TextFiles((source,), format="lines"), skip_bad=True)
    return [text for (text,) in islice(corpus, count)]
