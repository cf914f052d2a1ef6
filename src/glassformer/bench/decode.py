"""`bench decode`: the compiled engine beside CTranslate2 and Hugging Face on the same weights."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from glassformer.bench import engines
from glassformer.bench.contender_process import ContenderProcess
from glassformer.bench.engines import (
    BOS,
    CTRANSLATE2,
    EOS,
    MARIAN,
    OURS,
    PAD,
    WITH_WORKERS,
    Contender,
    Ids,
)
from glassformer.bench.peak import TIMES, memory_of
from glassformer.bench.race import (
    PAUSE,
    Cell,
    Result,
    Results,
    check_same_text,
    fastest,
    race,
    ratio_table,
    ratios_of,
    spread,
)
from glassformer.bench.report import Report
from glassformer.bench.roof import Machine, bandwidth, decoding_roof, peak, weights_of
from glassformer.bench.sentences import read_model, sentence_pairs
from glassformer.bench.varied_outputs import vary_outputs
from glassformer.callable_module import make_callable
from glassformer.checkpoint import Checkpoint, as_arrays
from glassformer.checkpoint import weights_of as torch_weights
from glassformer.config import PRESETS, RunSettings, preset
from glassformer.data.direction import tokenizers_for
from glassformer.data.typography import normalize
from glassformer.decode.options import SearchOptions
from glassformer.evaluate.bleu import bleu
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from glassformer.quantize import dequantise_weights

MIB = 2**20
PAPER_BEAM = 4
BATCH_ROUNDS = 3  # rounds of batches per round of single sentences, which take longer
EXTRA_LENGTH = 50  # tokens that an output may be longer than the longest source: the paper's


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement; the defaults are those of the published figures."""

    machine: Machine = field(default_factory=lambda: Machine(2))
    rounds: int = 3
    beam: int | None = None  # None: the paper's with random weights, else the default
    limit: int = 512  # sentences of a trained model
    batches: tuple[int, ...] = (1, 32)
    pause: float = PAUSE
    # With random weights:
    vocabulary: int = 16_000
    sentences: int = 64
    source_length: int = 20
    length: int = 24
    slow_sentences: int = 8  # for Hugging Face, which would take most of the time

    def quick(self) -> "Plan":
        """Return the same measurements in seconds: for tests, not for figures."""
        machine = self.machine._replace(seconds=0.01)
        sizes = {"vocabulary": 200, "sentences": 4, "source_length": 5, "length": 6}
        return replace(
            self, machine=machine, rounds=1, limit=4, batches=(1, 4), pause=0.0, slow_sentences=2,
            **sizes,
        )  # fmt: skip

    def rounds_of(self, batch: int) -> int:
        return self.rounds * (1 if batch == 1 else BATCH_ROUNDS)


@dataclass(frozen=True)
class Task:
    """One model and its sentences; sources are in the order of their lengths."""

    name: str
    about: str
    saved: Checkpoint
    sources: Ids
    longest: int  # tokens of an output
    beam: int
    references: list[str] | None = None

    @cached_property
    def contenders(self) -> list[str]:
        return engines.capable(self.saved)

    def cells(self, plan: Plan) -> list[Cell]:
        return [Cell(batch, beam) for batch in plan.batches for beam in (1, self.beam)]

    def steps(self, plan: Plan) -> int:
        """Return the number of turns and of measurements of memory."""
        names = self.contenders
        turns = [
            plan.rounds_of(cell.batch) + 1
            for cell in self.cells(plan)
            for name in names
            if engines.takes_part(name, cell.batch)
        ]
        return sum(turns) + sum(name not in WITH_WORKERS for name in names)


def task_of(
    name: str, plan: Plan, source: Path | None = None, reference: Path | None = None
) -> Task:
    """Return the task of a preset, which gets random weights, or of a trained translator."""
    if name in PRESETS:
        return random_task(name, plan)
    return trained_task(name, plan, source, reference)


def random_task(name: str, plan: Plan) -> Task:
    """Random weights that never produce the end mark: every output has `plan.length` tokens."""
    torch.manual_seed(0)
    shape = preset(name, vocab_size=plan.vocabulary, residual="post-norm")
    model = build(shape).eval()
    assert isinstance(model, Transformer), "the presets that are measured are translators"
    weights = as_arrays(torch_weights(vary_outputs(model, banned=[PAD, BOS, EOS])))
    ids = np.random.default_rng(0).integers(
        4, plan.vocabulary, (plan.sentences, plan.source_length)
    )
    about = (
        f"random weights, vocabulary {plan.vocabulary:,}, {plan.sentences} sentences of "
        f"{plan.source_length} tokens, outputs of {plan.length}"
    )
    saved = Checkpoint(RunSettings(model=shape), weights)
    sources = [[*row, EOS] for row in ids.tolist()]
    return Task(name, about, saved, sources, plan.length, plan.beam or PAPER_BEAM)


def trained_task(name: str, plan: Plan, source: Path | None, reference: Path | None) -> Task:
    """Real sentences; each output ends where the model ends it."""
    saved = read_model(name, "translator")
    data = saved.settings.data
    found = sentence_pairs(source, reference, plan.limit, data.name)
    tokenizer = tokenizers_for(data, saved.tokenizers, data.target_language)["source"]
    encoded = [ids[: data.max_length] for ids in tokenizer.encode(found.sources)]
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
    sources = [[*encoded[i], EOS] for i in order]
    references = None
    if found.references:
        plain = partial(normalize, language=data.target_language) if data.typography else str
        references = [plain(found.references[i]) for i in order]
    fp32 = replace(saved, weights=dequantise_weights(saved.weights))
    about = f"{len(sources):,} sentences of {found.name}"
    return Task(
        Path(name).name,
        about,
        fp32,
        sources,
        len(sources[-1]) + EXTRA_LENGTH,
        plan.beam or SearchOptions.beam_size,
        references,
    )


def bench_decode(tasks: list[Task], plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    """Measure every contender in every cell of every task."""
    tables: list[Table] = []
    ratios: dict[str, float] = {}
    names = {name for task in tasks for name in task.contenders}
    for task in tasks:
        races, memory = measure(task, plan, tick)
        tables += [
            speed_table(task, races, plan.machine),
            ratio_table(f"{task.name}: how many times as fast", races),
            memory,
        ]
        for cell, results in races.items():
            for ratio, value in ratios_of(results).items():
                ratios[f"{task.name}, {cell}: {ratio}"] = value
    tables.append(machine_table(tasks, plan.machine))
    notes = [
        "Contenders hold the same weights and take turns, each in a process of its own; the best "
        "round counts. In fp32 all give the same greedy output (checked).",
        "Encoder included; loading and tokenisation left out. Beams rank by probability alone.",
        f"CTranslate2 {version('ctranslate2')}: a batch on all threads, or in parts with a worker "
        "for each thread.",
        "roof: tokens/s that this machine's memory (m) or arithmetic (a) allows for this work, and "
        "how much of it is reached.",
    ]
    if MARIAN in names:
        notes.append(
            f"Hugging Face: transformers {version('transformers')}, Marian, SDPA, on about "
            f"{plan.slow_sentences} of the sentences. It has the paper's architecture only."
        )
    return Report(command, tables, ratios, notes, plan.machine.threads)


def measure(task: Task, plan: Plan, tick: Tick) -> tuple[dict[Cell, Results], Table]:
    """Return the results of each cell, and the table of memory."""
    names, threads = task.contenders, plan.machine.threads
    with TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        engines.write(task.saved, names, folder, max(task.longest, len(task.sources[-1])))
        contenders: dict[str, Contender] = {
            name: stack.enter_context(ContenderProcess(engines.load, name, folder, threads))
            for name in names
        }
        some = spread(task.sources, plan.slow_sentences)
        check_same_text(task.saved, contenders, some, task.longest)
        races = {
            cell: race(
                contenders, task.sources, cell, task.longest, plan.rounds_of(cell.batch),
                plan.slow_sentences, tick, plan.pause,
            )
            for cell in task.cells(plan)
        }  # fmt: skip
        memory = memory_table(task, plan, folder, tick)
    return races, memory


def speed_table(task: Task, races: dict[Cell, Results], machine: Machine) -> Table:
    columns = ["cell", "contender", "tokens/s", "ours ÷ it", "roof", "by", "% of it"]
    rows: list[Row] = []
    for cell, results in races.items():
        ours = fastest(results, OURS)
        for name, result in results.items():
            roof = decoding_roof(
                task.saved.settings.model, result.batches, result.outputs, cell.beam, task.longest,
                engines.is_int8(name), machine,
            )  # fmt: skip
            rows.append([str(cell), name, round(result.speed), ours / result.speed])
            rows[-1] += [round(result.tokens / roof.seconds), roof.limit[0]]
            rows[-1].append(round(100 * roof.seconds / result.seconds))
            if task.references:
                rows[-1].append(_bleu(task, result))
    title = f"{task.name}: {task.about}, {machine.threads} threads"
    return Table(title, [*columns, "BLEU"] if task.references else columns, rows)


def _bleu(task: Task, result: Result) -> str:
    assert task.references is not None
    if len(result.outputs) < len(task.references):
        return "–"  # decoded a part only
    tokenizer = task.saved.tokenizers.get("joint") or task.saved.tokenizers["target"]
    return f"{bleu([tokenizer.decode(ids) for ids in result.outputs], task.references):.2f}"


def memory_table(task: Task, plan: Plan, folder: Path, tick: Tick) -> Table:
    """Tabulate the peak memory of whole processes; the largest batch, the widest beam."""
    cell, rows = task.cells(plan)[-1], list[Row]()
    batch, peaks = task.sources[-cell.batch :], dict[str, int]()
    for name in task.contenders:
        if name not in WITH_WORKERS:
            threads = plan.machine.threads
            memory = memory_of(name, folder, threads, batch, cell.beam, task.longest)
            peaks[name] = memory.peak
            rows.append([name, *(round(n / MIB) for n in memory)])
            tick()
    peers = dict(zip(OURS, CTRANSLATE2, strict=True))
    for row in rows:
        peer = peers.get(str(row[0]))
        row.append(f"{peaks[str(row[0])] / peaks[peer]:.2f}" if peer else "–")
    title = f"{task.name}: memory of a process in MiB, {cell}, {TIMES} times"
    return Table(title, ["contender", "libraries", "loaded", "peak", "÷ CTranslate2"], rows)


def machine_table(tasks: list[Task], machine: Machine) -> Table:
    """Tabulate the measured limits of the machine that roofs are made of."""
    rows: list[Row] = [
        [f"multiply-adds in {kind}, 10⁹/s", f"{peak(int8, machine) / 1e9:.0f}"]
        for kind, int8 in (("INT8", True), ("fp32", False))
    ]
    for task in tasks:
        _, step = weights_of(task.saved.settings.model)
        for kind, n_bytes in (("INT8", step), ("fp32", 4 * step)):
            limit = f"memory, {n_bytes / MIB:,.1f} MiB of {task.name} {kind}, GB/s"
            rows.append([limit, f"{bandwidth(n_bytes, machine) / 1e9:.0f}"])
    return Table(f"The machine, {machine.threads} threads", ["limit", "measured"], rows)


make_callable(__name__, "glassformer.api.bench", "decode")
