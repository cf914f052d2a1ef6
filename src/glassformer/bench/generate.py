"""Speed and memory of a language model beside llama.cpp and Hugging Face: `bench generate`."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer import checkpoint, pretrained
from glassformer.bench import generators
from glassformer.bench.contender_process import ContenderProcess
from glassformer.bench.generators import (
    FP32,
    HUGGING_FACE,
    INT8,
    LLAMA_CPP,
    PEERS,
    Answer,
    Contender,
    Files,
    Ids,
)
from glassformer.bench.race import PAUSE
from glassformer.bench.report import Report
from glassformer.callable_module import make_callable
from glassformer.evaluate.card import Row, Table
from glassformer.interop.export_decoder import hugging_face_decoder
from glassformer.interop.safetensors_file import write_tensors
from glassformer.measure import Tick, best_of_rounds
from glassformer.pipeline import load_generator

MIB = 1 << 20
TEXTS = (
    "The capital of France is",
    "Once upon a time there was a dog who wanted to see the sea. One morning",
    "To bake bread you need flour, water, salt and yeast. First",
    "The first computers filled whole rooms and were slower than a watch of today, because",
)
NEEDED = {LLAMA_CPP: 1.0, HUGGING_FACE: 3.0}  # INT8 of ours is at least so many times as fast


@dataclass(frozen=True)
class Plan:
    """Plan of the comparison."""

    length: int = 128  # new tokens of each prompt
    rounds: int = 5
    threads: int = 2
    pause: float = PAUSE


def bench_generate(
    model: str | Path, gguf: Path | None, plan: Plan, command: str, tick: Tick = lambda: None
) -> Report:
    """Measure every contender that is installed; each continues every prompt by itself."""
    place = checkpoint.find(pretrained.resolve(model))
    with TemporaryDirectory() as folder, ExitStack() as stack:
        files = write(place, gguf, Path(folder))
        contenders: dict[str, Contender] = {
            name: stack.enter_context(ContenderProcess(generators.load, name, files, plan.threads))
            for name in generators.capable(files)
        }
        answers = measure(contenders, prompts_of(place), plan, tick)
    return report(Path(model).name, answers, plan, command)


def write(place: Path, gguf: Path | None, folder: Path) -> Files:
    """Write the weights of a checkpoint for the other libraries."""
    config, tensors = hugging_face_decoder(checkpoint.read(place))
    write_tensors(tensors, folder)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    files = Files(place, folder, gguf)
    if LLAMA_CPP not in generators.capable(files):
        return files
    assert gguf is not None
    return files._replace(gguf=generators.write_q8_0(gguf, folder / "q8_0.gguf"))


def prompts_of(place: Path) -> Ids:
    model = load_generator(place, threads=1)
    return [model.begun(ids) for ids in model.tokenizer.encode(TEXTS)]


def measure(
    contenders: dict[str, Contender], prompts: Ids, plan: Plan, tick: Tick = lambda: None
) -> dict[str, Answer]:
    """Return the best round of each contender; they take turns."""
    answers: dict[str, Answer] = {}

    def turn(name: str) -> float:
        answers[name] = contenders[name](prompts, plan.length)
        return answers[name].seconds

    turns: dict[str, Callable[[], float]] = {name: partial(turn, name) for name in contenders}
    best = best_of_rounds(turns, plan.rounds, tick, pause=plan.pause)
    return {name: answers[name]._replace(seconds=best[name]) for name in contenders}


def report(name: str, answers: dict[str, Answer], plan: Plan, command: str) -> Report:
    ours = answers[INT8]
    rows: list[Row] = []
    for contender, answer in answers.items():
        tokens = sum(map(len, answer.outputs))
        same = sum(a == b for a, b in zip(answer.outputs, answers[FP32].outputs, strict=True))
        rows.append(
            [
                contender,
                round(tokens / answer.seconds),
                f"{answer.seconds / ours.seconds:.2f}",
                round(answer.peak / MIB) if answer.peak else "–",
                f"{same} of {len(answer.outputs)}",
            ]
        )
    rows += [[peer, "absent", "–", "–", "–"] for peer in PEERS if peer not in answers]
    ratios = {peer: answers[peer].seconds / ours.seconds for peer in PEERS if peer in answers}
    columns = ["contender", "tokens/s", "ours INT8 ÷ it", "peak MiB", "same as fp32"]
    title = f"{name}: {len(TEXTS)} prompts by {plan.length} tokens, {plan.threads} threads"
    needs = "; ".join(f"{factor:g} × {peer}" for peer, factor in NEEDED.items())
    notes = [
        "The same weights, batch 1, greedy, the end mark banned; reading the prompt is included, "
        "loading is not. Contenders take turns, each in a process of its own; the best round "
        f"counts. What INT8 must reach: {needs}.",
    ]
    return Report(command, [Table(title, columns, rows)], ratios, notes, plan.threads)


make_callable(__name__, "glassformer.api.bench", "generate")
