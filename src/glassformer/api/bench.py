"""Measure speed, memory and exactness side by side with peers: a call for each measurement.

They are `glassformer.bench.decode(...)` and the like, with the figures of `glassformer bench`. All
take these arguments, and most return a report with `tables`, `ratios` and `to_json()`:

quick     use toy sizes, to test the measurement itself in seconds.
progress  show a bar.

A `model` is the folder of a run or a bundled model. `source` is a file of sentences to translate;
None: news, or captions for models of Multi30k, if $GLASSFORMER_DATA has them, else the grammar.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer import recipes
from glassformer.api.prepared import prepared
from glassformer.api.recipe import AnyRecipe, settings_of
from glassformer.api.run import Job, carry_out_or_stop
from glassformer.api.torch_state import own_torch_state
from glassformer.errors import InputError
from glassformer.extras import require_torch
from glassformer.progress import progress as show_progress

if TYPE_CHECKING:
    from glassformer.bench.report import Report
    from glassformer.bench.same_bits import SameBits
    from glassformer.bench.time_to_bleu import TimeToBleu
    from glassformer.config import RunSettings

Place = str | Path


def model(
    *,
    rounds: int | None = None,
    threads: int = 2,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Compare the torch model with nn.Transformer and Marian; time attention by length.

    The best of `rounds` counts. None: 7.
    """
    with _torch("model", threads):
        from glassformer.bench.model import Plan, bench_model

        plan = Plan.quick() if quick else Plan(rounds=rounds or Plan.rounds)
        with show_progress("measuring", plan.steps, progress) as tick:
            return bench_model(plan, "glassformer.bench.model(...)", tick)


def train(
    recipe: AnyRecipe = "multi30k",
    *,
    models: Sequence[str] | None = None,
    rounds: int = 3,
    updates: int = 6,
    joeynmt: Place | None = None,
    threads: int = 2,
    device: str = "cpu",
    progress: bool = True,
) -> "Report":
    """Compare training updates with other libraries, on the data of a recipe.

    Each of the `rounds` has `updates` updates; the best one counts.

    models   presets. None: tiny.
    joeynmt  the Python interpreter of an environment with JoeyNMT 2.3, to measure it too.
    """
    with _torch("train", threads):
        from glassformer.bench.train import Plan, bench_train
        from glassformer.device import resolve

        data = prepared(settings_of(recipe))
        names = tuple(models or ["tiny"])
        plan = Plan(names, updates, rounds, device=resolve(device), joeynmt=_path(joeynmt))
        with show_progress("measuring", plan.steps, progress) as tick:
            return bench_train(data, plan, "glassformer.bench.train(...)", tick)


def decode(
    models: Sequence[str] | None = None,
    *,
    source: Place | None = None,
    reference: Place | None = None,
    limit: int = 512,
    beam_size: int | None = None,
    rounds: int = 3,
    threads: int = 2,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Compare decoding with CTranslate2 and Hugging Face on the same weights.

        report = gf.bench.decode(["runs/mine"], source="news.en", rounds=1)
        print(report, report.worst_ratio)

    models     translators, or presets, which get random weights. None: vaswani2017-base and en-fr.
    reference  file of the translations of `source`, for BLEU.
    limit      sentences for translators, at most.
    beam_size  besides greedy search. None: 4 for presets, 5 for translators.
    rounds     of single sentences; batches have three times more.
    """
    if reference is not None and source is None:
        raise InputError(
            "A reference was given without a source.",
            "It has the translations of the sentences in the source.",
            "Give both, or leave the reference out.",
        )
    with _torch("decode"):
        from glassformer.bench.decode import Plan, bench_decode, task_of
        from glassformer.bench.roof import Machine

        plan = Plan(Machine(threads), rounds, beam_size, limit)
        plan = plan.quick() if quick else plan
        names = models or (["tiny", "en-fr"] if quick else ["vaswani2017-base", "en-fr"])
        tasks = [task_of(name, plan, _path(source), _path(reference)) for name in names]
        steps = sum(task.steps(plan) for task in tasks)
        with show_progress("measuring", steps, progress) as tick:
            return bench_decode(tasks, plan, "glassformer.bench.decode(...)", tick)


def classify(
    model: str = "sentiment",
    *,
    file: Place | None = None,
    limit: int = 256,
    rounds: int = 5,
    threads: int = 2,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Compare classification with torch and CTranslate2 on the same weights.

    `file` has a text in each line. None: IMDB's test_a if $GLASSFORMER_DATA has it, else random
    tokens. CTranslate2 has no classifiers: it runs the encoder, numpy the rest.
    """
    with _torch("classify"):
        from glassformer.bench.classify import Plan, bench_classify

        plan = Plan(threads, 1, 4, pause=0.0) if quick else Plan(threads, rounds, limit)
        with show_progress("measuring", plan.steps, progress) as tick:
            return bench_classify(model, plan, "glassformer.bench.classify(...)", _path(file), tick)


def start(
    *,
    times: int = 10,
    model: str | None = None,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Measure time and memory of `glassformer translate` and `--help`, and of a first run.

    Each command runs `times` times; the first run has an empty cache folder and compiles
    everything that it needs.
    """
    from glassformer.bench.start import Plan, bench_start

    plan = Plan(1 if quick else times, model)
    with show_progress("measuring", plan.steps, progress) as tick:
        return bench_start(plan, "glassformer.bench.start(...)", tick)


def busy(
    *,
    seconds: float = 6.0,
    rounds: int = 3,
    threads: int = 2,
    jobs: int = 2,
    demo: bool = False,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Compare how threads of training wait, beside busy jobs that it starts itself.

    Each measurement takes `seconds`, all of them about four minutes. Nothing else should be
    running. `demo` trains the demo beside the jobs, too.
    """
    with _torch("busy"):
        from glassformer.bench.busy import Plan, bench_busy, demo_beside, demo_note

        plan = Plan(seconds, rounds, threads, jobs)
        if quick:
            plan = Plan(0.5, 1, threads, jobs, batch_tokens=256)
        with show_progress("measuring", plan.steps, progress) as tick:
            report = bench_busy(plan, "glassformer.bench.busy(...)", tick)
        if demo:
            report.notes.append(demo_note(demo_beside(plan), plan))
        return report


def same_bits(
    model: str = "en-fr",
    *,
    source: Place | None = None,
    limit: int = 1_014,
    beam_size: int = 5,
    quick: bool = False,
    progress: bool = True,
) -> "SameBits":
    """Check that output and score of a sentence are the same to the bit in any batch.

    Each of at most `limit` sentences alone on one thread is compared with batches of 1, 7, 32 and
    64 in shuffled order on one and two threads, in fp32 and INT8, greedily and with a beam.
    """
    from glassformer.bench.same_bits import Plan, compare

    plan = Plan(4, beam_size, (1, 3)) if quick else Plan(limit, beam_size)
    with show_progress("comparing", plan.steps, progress) as tick:
        return compare(model, plan, _path(source), tick)


def faults(
    campaigns: Sequence[str] = (),
    *,
    seed: int = 0,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Make faults on purpose and count what survives them; `failures` is what did not.

    campaigns  kills, checkpoints, imports, inputs, servers, threads, memory, clock, requests.
               None: all.
    seed       of the faults; another one makes other faults.
    """
    with _torch("faults"):
        from glassformer.bench.faults.campaign import chosen
        from glassformer.bench.faults.table import CAMPAIGNS, bench_faults, steps

        some = chosen(CAMPAIGNS, list(campaigns))
        with show_progress("making faults", steps(some, quick), progress) as tick:
            return bench_faults(some, quick, seed, "glassformer.bench.faults(...)", tick)


def serve(
    model: str = "en-fr",
    *,
    source: Place | None = None,
    limit: int = 512,
    clients: int = 200,
    seconds: float = 60.0,
    threads: int = 2,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Measure the server under load, beside CTranslate2.

    So many `clients` send requests at the same time, for `seconds` at each server. `failures`
    counts lost requests, and answers that differ from those of the same server to one client.
    """
    with _torch("serve"):
        from glassformer.bench.serve import Plan, bench_serve

        sizes = (4, 8, 0.3) if quick else (limit, clients, seconds)
        plan = Plan(model, *sizes, threads)
        with show_progress("measuring", plan.steps, progress) as tick:
            return bench_serve(plan, "glassformer.bench.serve(...)", _path(source), tick)


def time_to_bleu(
    runs: Sequence[Place],
    target: float = 55.0,
    *,
    progress: bool = True,
) -> "TimeToBleu":
    """Report minutes and tokens until runs reached a BLEU; `draw` shows their curves.

    `runs` are folders or logs of runs. A recipe is first trained in runs/time-to-bleu/NAME, until
    the BLEU is reached or the recipe ends.
    """
    from glassformer.bench.time_to_bleu import TimeToBleu, timed

    places = list(dict.fromkeys(map(Path, runs)))
    settings = {path: settings_of(path) for path in places if _is_recipe(path)}
    found = {path: timed(path) for path in places if path not in settings}
    for path, recipe in settings.items():  # after the errors of missing logs
        found[path] = timed(_trained_to(target, recipe, path.stem, progress))
    return TimeToBleu(
        [found[path] for path in places], target, "glassformer.bench.time_to_bleu(...)"
    )


def course(runs: Sequence[Place], output: Place = "course.svg") -> Path:
    """Draw loss, scores, learning rate and speed of runs over time; return the picture's path.

    `runs` are folders or logs of runs; `output` ends in .svg or .png.
    """
    from glassformer.bench.course import draw

    draw([Path(run) for run in runs], Path(output))
    return Path(output)


def interop(
    work: Place,
    *,
    weights: Place | None = None,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Compare imported models with their libraries; `failures` counts those that differ.

    work     folder for fetched packages and models, 2 GB.
    weights  folder with stories260K/ and bart-g2p/, which no package has.
    """
    with _torch("interop"):
        from glassformer.bench.interop import Plan, bench_interop

        sizes = (10, 5) if quick else ()
        plan = Plan(Path(work), _path(weights), *sizes)
        with show_progress("comparing", plan.steps, progress) as tick:
            return bench_interop(plan, "glassformer.bench.interop(...)", tick)


def generate(
    model: str,
    *,
    gguf: Place | None = None,
    length: int = 128,
    rounds: int = 5,
    threads: int = 2,
    quick: bool = False,
    progress: bool = True,
) -> "Report":
    """Compare a language model with llama.cpp and Hugging Face on the same weights.

    `gguf` is the file that the model was imported from, for llama.cpp. A prompt gets `length` new
    tokens.
    """
    with _torch("generate"):
        from glassformer.bench.generate import Plan, bench_generate

        plan = Plan(16, 1, threads, 0.0) if quick else Plan(length, rounds, threads)
        with show_progress("generating", 4 * (plan.rounds + 1), progress) as tick:
            return bench_generate(model, _path(gguf), plan, "glassformer.bench.generate(...)", tick)


@contextmanager
def _torch(name: str, threads: int | None = None) -> Iterator[None]:
    """Require torch, set its threads, and give its state back to the caller."""
    require_torch(f"glassformer.bench.{name}")
    import torch

    with own_torch_state():
        if threads is not None:
            torch.set_num_threads(threads)
        yield


def _path(place: Place | None) -> Path | None:
    return None if place is None else Path(place)


def _is_recipe(path: Path) -> bool:
    return path.suffix == ".toml" or str(path) in recipes.names()


def _trained_to(target: float, settings: "RunSettings", name: str, progress: bool) -> Path:
    """Train a recipe until the BLEU is reached or the recipe ends; return the run's folder."""
    from glassformer.bench.trials import claim

    folder = Path("runs/time-to-bleu") / name
    settings = settings.replace(train={"metric": "bleu"})
    resume = claim(folder, settings)
    limited = settings.replace(train={"target": target})
    carry_out_or_stop(Job(limited, folder, resume, progress=progress))
    return folder
