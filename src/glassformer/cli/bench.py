"""`glassformer bench`: speed, memory and time to a score, as a table and as JSON."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from glassformer.api import bench as api
from glassformer.api.run import StoppedError
from glassformer.bench.report import WIDTH, Report
from glassformer.cli import options as o
from glassformer.cli.verb import Verb
from glassformer.progress import columns

app = typer.Typer(no_args_is_help=True)

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Use toy sizes, to test the command itself; write to results/quick."
    ),
]
Threads = Annotated[
    int, typer.Option(min=1, metavar="N", help="Threads of each program that is measured.")
]
Translator = Annotated[
    str, typer.Option(metavar="MODEL", help="A translator: a run or a bundled model.")
]
Rounds = Annotated[int, typer.Option(min=1, metavar="N", help="Rounds; the best one counts.")]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="Sentences, at most.")]
Sentences = Annotated[
    Path | None,
    typer.Option(
        "--source",
        metavar="FILE",
        help="Sentences to translate, one per line.",
        show_default="news, or captions for models of Multi30k, if $GLASSFORMER_DATA has them; "
        "else the grammar",
    ),
]


def _json_option(name: str) -> Any:
    """Return the option of the JSON file that a benchmark writes by default."""
    return typer.Option(
        metavar="FILE", help="Write the figures as JSON.", show_default=f"results/{name}.json"
    )


@app.callback()
def bench() -> None:
    """Measure speed and memory beside other libraries. The worst ratio is printed last."""


@app.command(cls=Verb)
def model(
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Rounds; the best one counts.", show_default="7"),
    ] = None,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_model")] = None,
    quick: Quick = False,
) -> None:
    """Compare the torch model with nn.Transformer and Marian.

    It also times attention by length.
    """
    o.not_with("--quick", quick, "It has rounds of its own.", rounds=rounds)
    found = api.model(rounds=rounds, threads=threads, quick=quick)
    show(found, output or figures("bench_model", quick))


def figures(name: str, quick: bool) -> Path:
    """Return the file of the figures; toy figures never replace real ones."""
    return Path("results/quick" if quick else "results") / f"{name}.json"


def show(report: Report, output: Path) -> None:
    """Print a report, save it, and exit with 1 if something failed."""
    console = Console(width=columns(WIDTH), highlight=False)
    report.show(console)
    replace(report, command=o.written_command()).save(output)
    console.print(f"written to {output}")
    if report.worst_ratio is not None:
        console.print(f"worst ratio: {report.worst_ratio:.2f}")
    if report.failures:
        raise typer.Exit(1)


@app.command(cls=Verb)
def train(
    recipe: Annotated[
        str, typer.Option(metavar="RECIPE", help="Recipe whose data to train on.")
    ] = "multi30k",
    rounds: Rounds = 3,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="PRESET", help="May be repeated.", show_default="tiny"),
    ] = None,
    updates: Annotated[int, typer.Option(min=1, metavar="N", help="Updates per round.")] = 6,
    joeynmt: Annotated[
        Path | None,
        typer.Option(metavar="PYTHON", help="Interpreter of an environment with JoeyNMT 2.3."),
    ] = None,
    threads: Threads = 2,
    device: o.Device = "cpu",
    output: Annotated[Path, typer.Option(metavar="FILE", help="Write the figures as JSON.")] = Path(
        "results/bench_train.json"
    ),
) -> None:
    """Compare training updates with other libraries.

    They are nn.Transformer, Marian and JoeyNMT.

    Each model is measured in fp32 and, where the processor multiplies it, in bf16.
    """
    found = api.train(
        recipe, models=models, rounds=rounds, updates=updates, joeynmt=joeynmt, threads=threads,
        device=device,
    )  # fmt: skip
    show(found, output)


@app.command(cls=Verb)
def decode(
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A translator, or a preset, which gets random weights. May be repeated.",
            show_default="vaswani2017-base and en-fr",
        ),
    ] = None,
    source: Sentences = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Reference translations of --source, for BLEU."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Sentences for translators, at most.")
    ] = 512,
    beam: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Beam size.",
            show_default="4 for presets, 5 for translators",
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Rounds of single sentences; batches have three times more."
        ),
    ] = 3,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_decode")] = None,
    quick: Quick = False,
) -> None:
    """Compare decoding with CTranslate2 and Hugging Face.

    All run the same weights; speed and memory are measured.

    Batches are of 1 and 32, greedy and beam. CTranslate2 runs with all threads on one batch and
    with a worker per thread. `roof` is what memory bandwidth and arithmetic of this machine allow.
    """
    o.only_with("--source", source is not None, reference=reference)
    found = api.decode(
        models, source=source, reference=reference, limit=limit, beam_size=beam, rounds=rounds,
        threads=threads, quick=quick,
    )  # fmt: skip
    show(found, output or figures("bench_decode", quick))


@app.command(cls=Verb)
def classify(
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="A classifier: a run or a bundled model.")
    ] = "sentiment",
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Texts, one per line.",
            show_default="IMDB's test_a if $GLASSFORMER_DATA has it, else random tokens",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Texts, at most.")] = 256,
    rounds: Rounds = 5,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_classify")] = None,
    quick: Quick = False,
) -> None:
    """Compare classification with other libraries.

    They are torch, ONNX Runtime and CTranslate2.

    All run the same weights. CTranslate2 has no classifiers: it runs the encoder, numpy the rest.
    """
    found = api.classify(
        model, file=file, limit=limit, rounds=rounds, threads=threads, quick=quick,
    )  # fmt: skip
    show(found, output or figures("bench_classify", quick))


@app.command(cls=Verb)
def start(
    times: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each command.")] = 10,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A translator.", show_default="en-fr")
    ] = None,
    output: Annotated[Path | None, _json_option("bench_start")] = None,
    quick: Quick = False,
) -> None:
    """Measure time and memory of starting the command line.

    It runs `translate` and `--help`, and `translate` with an empty cache folder, which compiles
    everything that it needs.
    """
    found = api.start(times=times, model=model, quick=quick)
    show(found, output or figures("bench_start", quick))


@app.command(cls=Verb)
def busy(
    seconds: Annotated[
        float, typer.Option(min=0.5, metavar="S", help="Seconds of each measurement.")
    ] = 6.0,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Rounds; the median counts.")] = 3,
    threads: Threads = 2,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Busy jobs to start.")] = 2,
    demo: Annotated[
        bool, typer.Option("--demo", help="Train the demo beside the jobs, too: minutes more.")
    ] = False,
    output: Annotated[Path | None, _json_option("bench_busy")] = None,
    quick: Quick = False,
) -> None:
    """Compare how threads of training wait, beside busy jobs.

    It starts the jobs itself and takes about four minutes; nothing else should be running.
    """
    found = api.busy(
        seconds=seconds, rounds=rounds, threads=threads, jobs=jobs, demo=demo, quick=quick
    )
    show(found, output or figures("bench_busy", quick))


@app.command("same-bits", cls=Verb)
def same_bits(
    model: Translator = "en-fr",
    source: Sentences = None,
    limit: Limit = 1_014,
    beam: Annotated[
        int, typer.Option(min=2, metavar="N", help="Beam size, besides greedy search.")
    ] = 5,
    quick: Quick = False,
) -> None:
    """Check that output is the same to the bit in any batch.

    Each sentence is decoded alone on one thread, then in shuffled batches of 1, 7, 32 and 64 on one
    and two threads; in fp32 and INT8, greedily and with a beam. The exit code is 1 if an output or
    a score differs.
    """
    found = api.same_bits(model, source=source, limit=limit, beam_size=beam, quick=quick)
    print(found)
    if found.differing:
        raise typer.Exit(1)


@app.command(cls=Verb)
def faults(
    campaign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A campaign; may be repeated: kills, checkpoints, imports, inputs, servers, "
            "threads, memory, clock, requests.",
            show_default="all",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Random seed; another one makes other faults.")
    ] = 0,
    output: Annotated[Path | None, _json_option("bench_faults")] = None,
    quick: Quick = False,
) -> None:
    """Make faults on purpose and count what survives them.

    Runs are killed, checkpoints, inputs and requests damaged, downloads give wrong answers, threads
    share a model, memory is measured, clocks jump. The exit code is 1 if something is lost, raises
    a traceback or hangs.
    """
    found = api.faults(campaign or (), seed=seed, quick=quick)
    show(found, output or figures("bench_faults", quick))


@app.command(cls=Verb)
def serve(
    model: Translator = "en-fr",
    source: Sentences = None,
    limit: Limit = 512,
    clients: Annotated[
        int, typer.Option(min=1, metavar="N", help="Clients that send requests at the same time.")
    ] = 200,
    seconds: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds of requests to each server.")
    ] = 60.0,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_serve")] = None,
    quick: Quick = False,
) -> None:
    """Measure the server under load, beside CTranslate2.

    Clients in a second process send requests over loopback, each its next sentence when it has its
    answer. Every answer is compared with that of the same server to one client alone.
    The exit code is 1 if a request is lost or an answer differs.
    """
    found = api.serve(
        model, source=source, limit=limit, clients=clients, seconds=seconds, threads=threads,
        quick=quick,
    )  # fmt: skip
    show(found, output or figures("bench_serve", quick))


@app.command("time-to-bleu", cls=Verb)
def time_to_bleu(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders or logs of runs. A recipe is first trained in runs/time-to-bleu/, "
            "until the BLEU is reached.",
        ),
    ],
    target: Annotated[
        float, typer.Option(min=0.0, max=100.0, metavar="BLEU", help="The BLEU to reach.")
    ] = 55.0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write figures and curves as JSON.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the curves as .svg or .png.")
    ] = None,
) -> None:
    """Report minutes and tokens until runs reached a BLEU."""
    from glassformer import picture
    from glassformer.evaluate.card import show as show_sheet
    from glassformer.evaluate.evaluation import WIDTH as SHEET_WIDTH

    if figure is not None:
        picture.check(figure)
    try:
        found = replace(api.time_to_bleu(runs, target), command=o.written_command())
    except StoppedError as stopped:
        raise typer.Exit(stopped.exit_code) from None
    show_sheet(found.sheet(), Console(width=columns(SHEET_WIDTH), highlight=False))
    if output is not None:
        o.save(output, json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n")
    if figure is not None:
        found.draw(figure)


@app.command(cls=Verb)
def course(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs, or their logs.")
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="The picture: .svg or .png.")] = Path(
        "course.svg"
    ),
) -> None:
    """Draw loss, scores, rate and speed of runs over time."""
    print(f"written to {api.course(runs, output)}")


@app.command(cls=Verb)
def interop(
    work: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for fetched packages and models, 2 GB.")
    ],
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder with stories260K/ and bart-g2p/, which no package has."
        ),
    ] = None,
    output: Annotated[Path | None, _json_option("bench_interop")] = None,
    quick: Quick = False,
) -> None:
    """Compare imported models with their libraries."""
    found = api.interop(work, weights=weights, quick=quick)
    show(found, output or figures("bench_interop", quick))


@app.command(cls=Verb)
def generate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run or an imported model: smollm2.")
    ],
    gguf: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The GGUF file that MODEL was imported from, for llama.cpp."
        ),
    ] = None,
    length: Annotated[int, typer.Option(min=1, metavar="N", help="New tokens of a prompt.")] = 128,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Turns of a contender.")] = 5,
    threads: Threads = 2,
    output: Annotated[Path | None, _json_option("bench_generate")] = None,
    quick: Quick = False,
) -> None:
    """Compare language models with llama.cpp and Hugging Face."""
    found = api.generate(
        model, gguf=gguf, length=length, rounds=rounds, threads=threads, quick=quick
    )
    show(found, output or figures("bench_generate", quick))
