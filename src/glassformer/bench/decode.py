"""`bench decode`: text made token by token, beside the engines that people deploy."""

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from glassformer import checkpoint, pretrained
from glassformer.bench import engines
from glassformer.bench.alone import Alone
from glassformer.bench.engines import (
    BOS,
    CTRANSLATE2,
    EOS,
    MARIAN,
    OURS,
    PAD,
    WITH_WORKERS,
    Engine,
    Ids,
    Lengths,
)
from glassformer.bench.harness import Report, Row, Table, Tick
from glassformer.bench.lively import lively
from glassformer.bench.peak import TIMES, memory_of
from glassformer.bench.race import (
    Cell,
    Turns,
    check_same_text,
    goal_table,
    race,
    ratios_of,
    speed_table,
    spread,
    yes,
)
from glassformer.checkpoint import Checkpoint, as_arrays, weights_of
from glassformer.config import RunSettings, preset
from glassformer.data.corpus import TextFiles
from glassformer.errors import CheckpointError
from glassformer.evaluate.bleu import bleu
from glassformer.evaluate.examples import from_files
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from glassformer.quantize import dequantise_weights, is_quantised

MIB = 2**20


@dataclass(frozen=True)
class Plan:
    """What to measure; the defaults are the figures that the project publishes."""

    preset: str = "vaswani2017-base"
    vocabulary: int = 16_000
    sentences: int = 64
    source_length: int = 20
    length: int = 24
    cells: tuple[Cell, ...] = (Cell(1, 1), Cell(1, 4), Cell(32, 1), Cell(32, 4))
    rounds: int = 3
    quick_rounds: int = 5  # for each round of single sentences: batches take a fraction of its time
    slow_sentences: int = 8  # of Hugging Face's `generate`, which would take most of the time

    @classmethod
    def quick(cls) -> "Plan":
        """The same measurements in seconds: for tests, not for figures."""
        return cls("tiny", 200, 4, 5, 6, (Cell(1, 1), Cell(4, 2)), 1, 1, 2)

    @classmethod
    def trained(cls, rounds: int) -> "Plan":
        """For real sentences, of which there are more, and with a beam that one translates with."""
        cells = (Cell(1, 1), Cell(1, 5), Cell(32, 1), Cell(32, 5))
        return cls(cells=cells, rounds=rounds, slow_sentences=64)

    def rounds_of(self, cell: Cell) -> int:
        return self.rounds * (1 if cell.batch == 1 else self.quick_rounds)

    @property
    def steps(self) -> int:
        return sum(map(self.steps_of, (*OURS, *CTRANSLATE2, *WITH_WORKERS, MARIAN)))

    def steps_of(self, name: str) -> int:
        """Turns of a contender, and a measurement of its memory."""
        cells = [cell for cell in self.cells if engines.takes_part(name, cell.batch)]
        return sum(self.rounds_of(cell) + 1 for cell in cells) + (name not in WITH_WORKERS)


class Measured(NamedTuple):
    races: dict[Cell, Turns]
    memory: Table
    contenders: list[str]


def bench_decode(plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    """Untrained weights; every answer has exactly `plan.length` tokens, from every contender."""
    saved = random_checkpoint(plan)
    words = torch.randint(4, plan.vocabulary, (plan.sentences, plan.source_length))
    sources = [[*source, EOS] for source in words.tolist()]
    done = measure(saved, sources, Lengths(plan.length, plan.length), plan, tick)
    title = (
        f"Decoding: {plan.preset}, vocabulary {plan.vocabulary:,}, {plan.sentences} sentences of "
        f"{plan.source_length} tokens, {plan.length} out, {torch.get_num_threads()} threads"
    )
    tables = [speed_table(title, done.races), goal_table(done.races), done.memory]
    told = [*notes(plan, done), "The weights are random, and say many things."]
    return Report(command, tables, ratios_of(done.races), told)


def random_checkpoint(plan: Plan) -> Checkpoint:
    torch.manual_seed(0)
    shape = preset(plan.preset, vocab_size=plan.vocabulary, residual="post-norm")
    model = build(shape).eval()
    assert isinstance(model, Transformer), "the presets that are measured are translators"
    weights = as_arrays(weights_of(lively(model, unsayable=[PAD, BOS])))
    return Checkpoint(RunSettings(model=shape), weights)


def bench_trained(
    run: Path,
    text: TextFiles,
    plan: Plan,
    command: str,
    tick: Tick = lambda: None,
    limit: int | None = None,
) -> Report:
    """A trained model on real sentences: each answer ends where the model ends it."""
    saved = trained_checkpoint(run)
    joint = saved.tokenizers.get("joint")
    reads, says = (joint or saved.tokenizers[side] for side in ("source", "target"))
    rows = from_files(text, limit).rows
    pairs = zip(reads.encode([source for source, _ in rows]), rows, strict=True)
    ordered = sorted(pairs, key=lambda pair: len(pair[0]))  # like lengths share a batch
    sources = [[*ids, EOS] for ids, _ in ordered]
    references = [reference for _, (_, reference) in ordered]
    done = measure(saved, sources, Lengths(0, len(sources[-1]) + 50), plan, tick)
    title = f"Decoding: {run.name}, {len(rows):,} sentences, {torch.get_num_threads()} threads"
    table = speed_table(title, done.races)
    table.columns.append("BLEU")
    turns = [turn for cell in done.races.values() for turn in cell.values()]
    for row, turn in zip(table.rows, turns, strict=True):
        all_said = len(turn.said) == len(references)
        row.append(
            f"{bleu(list(map(says.decode, turn.said)), references):.2f}" if all_said else "–"
        )
    told = [*notes(plan, done), "BLEU is sacreBLEU's, cased and detokenised."]
    return Report(
        command, [table, goal_table(done.races), done.memory], ratios_of(done.races), told
    )


def trained_checkpoint(run: Path) -> Checkpoint:
    saved = checkpoint.read(checkpoint.find(pretrained.resolve(run)))
    if saved.settings.model.kind != "translator" or not saved.tokenizers:
        raise CheckpointError(
            f"{run} holds a {saved.settings.model.kind} for {saved.settings.data.name!r}.",
            "Decoding is measured with translators of text.",
            "Name the run of a translator.",
        )
    weights = dequantise_weights(saved.weights) if is_quantised(saved.weights) else saved.weights
    return replace(saved, weights=weights)


def measure(saved: Checkpoint, sources: Ids, lengths: Lengths, plan: Plan, tick: Tick) -> Measured:
    """All contenders in all cells; sources come in the order of their lengths."""
    names, threads = engines.able(saved), torch.get_num_threads()
    for _ in range(plan.steps - sum(map(plan.steps_of, names))):
        tick()  # whoever cannot hold the model has nothing to do
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        engines.write(saved, names, folder, max(lengths.longest, len(sources[-1])) + 1)
        contenders: dict[str, Engine] = {
            name: stack.enter_context(closing(Alone(name, folder, threads))) for name in names
        }
        check_same_text(saved, contenders, spread(sources, plan.slow_sentences), lengths)
        races = {
            cell: race(
                contenders,
                sources,
                cell,
                lengths,
                plan.rounds_of(cell),
                plan.slow_sentences,
                tick,
            )
            for cell in plan.cells
        }
        alone = [name for name in names if name not in WITH_WORKERS]
        memory = memory_table(alone, folder, sources, plan.cells[-1], lengths, tick)
    return Measured(races, memory, names)


def memory_table(
    names: list[str], folder: Path, sources: Ids, cell: Cell, lengths: Lengths, tick: Tick
) -> Table:
    """Ours may take what CTranslate2 takes at the same precision, and its interpreter's own."""
    taken = {}
    for name in names:
        batch, threads = sources[-cell.batch :], torch.get_num_threads()
        taken[name] = memory_of(name, folder, threads, batch, cell.beam, lengths)
        tick()
    limits = {
        ours: taken[theirs].peak + taken[ours].interpreter
        for ours, theirs in zip(OURS, CTRANSLATE2, strict=True)
    }
    rows: list[Row] = []
    for name, memory in taken.items():
        row: Row = [name, *(round(n / MIB) for n in (*memory, memory.own))]
        if limit := limits.get(name):
            row += [f"< {limit / MIB:.0f}", yes(memory.peak < limit)]
        rows.append(row if limit else [*row, "–", "–"])
    columns = ["contender", "interpreter", "loaded", "peak", "peak − interpreter", "goal", "met"]
    title = f"Memory in MiB: {cell}, decoded {TIMES} times, each in a process of its own"
    return Table(title, columns, rows)


def notes(plan: Plan, done: Measured) -> list[str]:
    marian = "Hugging Face is left out: its Marian has no such architecture."
    if MARIAN in done.contenders:
        marian = (
            f"Hugging Face (transformers {version('transformers')}, Marian, SDPA) is asked for "
            f"about {plan.slow_sentences} of the sentences: speed is counted per token."
        )
    return [
        "Each contender runs in a process of its own, in turns with the others.",
        "All contenders hold the same weights; those in fp32 say the same, greedily (checked).",
        "Loading and tokenisation are left out; beams rank by probability alone.",
        f"CTranslate2 {version('ctranslate2')} with the library of its own choice; a batch on all "
        "threads, and parts of it on one thread each (workers), which ours does with large ones.",
        marian,
    ]
