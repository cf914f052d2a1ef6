"""`profile`: where the time and the memory of decoding go, and how the cost of a token grows.

The model of `model/` is profiled, in fp32, through `TorchDecoder`. Sentences are decoded one by one
and in batches, each once with the hooks of `stopwatch` and once without; `growth` makes its own
short runs. `bench decode` measures the compiled engine.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from glassformer.bench.growth import (
    MIB,
    SOURCE_LENGTH,
    Growth,
    by_input,
    by_output,
    random_sources,
)
from glassformer.bench.report import Report
from glassformer.bench.stopwatch import (
    ENCODING,
    IN_A_STEP,
    OUTPUT,
    PARTS,
    REST,
    SEARCH,
    SUBWORDS,
    Stopwatch,
    around,
)
from glassformer.config import PRESETS
from glassformer.data.batching import TokenBatches
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.search import SearchOptions, output_limits, search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.device import wait_for
from glassformer.errors import InputError
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Run, Tick, peak_bytes, peaks_within, silent_stderr
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from glassformer.output import save_text
from glassformer.pipeline import BATCH_TOKENS, Translator
from glassformer.train.distributed import CPU

ANSWER_LENGTH = 24  # output tokens of a model with random weights

# Subjects


@dataclass(frozen=True)
class Subject:
    """A model, its input and its search options. `read` encodes sentences, `write` decodes ids."""

    name: str
    model: Transformer
    sentences: Sequence[Any]
    read: Callable[[Sequence[Any]], list[list[int]]]
    write: Callable[[list[list[int]]], object]
    options: SearchOptions

    def shortened(self, tokens: int) -> "Subject":
        """Return the same subject with answers of exactly `tokens` tokens."""
        return replace(self, options=replace(self.options, min_length=tokens, max_length=tokens))


def preset_subject(name: str, sentences: int, beam: int, device: torch.device = CPU) -> Subject:
    """Build a preset with random weights, which cost what trained ones do.

    It has no tokenizer: its sources are random ids, and its answers have one length.
    """
    if PRESETS[name].kind != "translator":
        raise InputError(
            f"{name} is a {PRESETS[name].kind}.",
            "Decoding from a source is profiled, which only translators do.",
            "Name another preset, such as vaswani2017-base, or the run of a translator.",
        )
    torch.manual_seed(0)
    model = build(name).to(device).eval()
    assert isinstance(model, Transformer)
    sources = random_sources(model, sentences, SOURCE_LENGTH)
    sources[:, -1] = EOS
    title, options = f"{name} (random weights)", SearchOptions(beam)
    return Subject(title, model, sources.tolist(), list, list, options).shortened(ANSWER_LENGTH)


def run_subject(name: str, translator: Translator, texts: Sequence[str], beam: int) -> Subject:
    """Profile a trained translator; sentences longer than it was trained on are cut."""
    source, target = translator.source_tokenizer, translator.target_tokenizer

    def read(texts: Sequence[str]) -> list[list[int]]:
        return [[*ids[: translator.max_length], EOS] for ids in source.encode(texts)]

    def write(answers: list[list[int]]) -> list[str]:
        return [target.decode(ids) for ids in answers]

    return Subject(name, translator.model, texts, read, write, translator.options(beam_size=beam))


# The profile


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement."""

    sentences: int = 64
    growth: Growth = field(default_factory=Growth)

    @classmethod
    def quick(cls, sentences: int) -> "Plan":
        """Return the same measurements in seconds: for tests, not for figures."""
        return cls(min(sentences, 4), Growth((4, 8, 16), window=2, rounds=1))

    def fitting(self, subject: Subject) -> "Plan":
        """Limit the plan to the number of sentences and to the lengths of the model."""
        return Plan(len(subject.sentences), self.growth.fitting(subject.model))

    @property
    def steps(self) -> int:
        return self.sentences + 3 + self.growth.steps  # 3: the batches together, and two of memory


def profile_decoding(
    subject: Subject, plan: Plan, command: str, tick: Tick = lambda: None
) -> Report:
    """Make the tables of `glassformer profile`, and the time of a step without and with cache."""
    answer(subject, subject.sentences)  # warms up
    alone = timing(subject, [[sentence] for sentence in subject.sentences], tick)
    batched = timing(subject, [subject.sentences], tick)
    output = by_output(subject.model, plan.growth, tick)
    tables = [
        time_table(subject, alone, batched),
        speed_table(alone, batched),
        memory_table(subject, tick),
        output,
        by_input(subject.model, plan.growth, tick),
    ]
    longest, cached, _, uncached, _ = output.rows[-2]  # the last row holds exponents
    notes = [
        "Parts are timed with hooks on the modules, speed and latency without. One by one, "
        f"sentences took {sum(alone.watched):.2f} s with hooks and {alone.total:.2f} s without.",
        "Search is everything that is neither model nor subwords. Encoding includes the source's "
        "keys and values; the rest of a step its embedding, positions and sums.",
    ]
    return Report(command, tables, {f"cache at {longest}": float(uncached) / float(cached)}, notes)


def answer(
    subject: Subject, sentences: Sequence[Any], watch: Stopwatch | None = None
) -> list[list[int]]:
    """Return the answer to each sentence: encode, batch by length, search and decode."""
    watch = watch or Stopwatch()
    with watch.part(SEARCH):
        with watch.part(SUBWORDS):
            sources = subject.read(sentences)
        answers: list[list[int]] = [[] for _ in sources]
        decoder = TorchDecoder(subject.model)
        for rows, batch in batches(sources, subject.options.beam_size):
            found = search(decoder, batch, BOS, EOS, subject.options)
            for i, hypotheses in zip(rows, found, strict=True):
                answers[i] = hypotheses[0].ids
        with watch.part(SUBWORDS):
            subject.write(answers)
    return answers


def batches(sources: list[list[int]], beam: int) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Yield batches of similar length, as the pipeline makes them: numbers and ids."""
    lengths = np.array([len(ids) for ids in sources])
    for rows in TokenBatches(lengths, max(1, BATCH_TOKENS // beam)).epoch(0, shuffle=False):
        yield rows.tolist(), [sources[i] for i in rows]


# Time


class Timing(NamedTuple):
    """Sentences decoded group by group, each group once without and once with hooks."""

    seconds: list[float]
    watched: list[float]  # the same with hooks
    parts: dict[str, float]  # of `watched`
    sentences: int
    tokens: int  # of all answers, end marks not counted

    @property
    def total(self) -> float:
        return sum(self.seconds)


def timing(subject: Subject, groups: Sequence[Sequence[Any]], tick: Tick) -> Timing:
    watch = Stopwatch(partial(wait_for, subject.model.output.weight.device))
    answers: list[list[int]] = []
    plain, watched = list[float](), list[float]()
    for group in groups:
        start = perf_counter()
        answers += answer(subject, group)
        plain.append(perf_counter() - start)
        with around(subject.model, lambda _, part: watch.enter(part), watch.leave):
            start = perf_counter()
            answer(subject, group, watch)
            watched.append(perf_counter() - start)
        tick()
    return Timing(plain, watched, watch.seconds, len(answers), sum(map(len, answers)))


def time_table(subject: Subject, alone: Timing, batched: Timing) -> Table:
    """Tabulate milliseconds per sentence and shares by part; a step's parts are indented."""

    def row(title: str, *parts: str) -> Row:
        cells: Row = [title]
        for time in (alone, batched):
            spent = sum(time.parts[part] for part in parts)
            cells += [1e3 * spent / time.sentences, 100 * spent / sum(time.parts.values())]
        return cells

    rows = [
        row(SUBWORDS, SUBWORDS),
        row(ENCODING, ENCODING),
        row("decoding steps", *IN_A_STEP),
        *(row(f"  {part}", part) for part in IN_A_STEP),
        row(SEARCH, SEARCH),
        row("total", *PARTS),
    ]
    title = (
        f"Where time goes: {subject.name}, {alone.sentences} sentences, "
        f"beam {subject.options.beam_size}, {torch.get_num_threads()} threads"
    )
    return Table(title, ["part", "one by one, ms", "%", "batched, ms a sentence", "%"], rows)


def speed_table(alone: Timing, batched: Timing) -> Table:
    percentiles = [1e3 * float(p) for p in np.percentile(alone.seconds, (50, 95, 99))]
    rows: list[Row] = [
        [how, t.tokens / t.total, t.sentences / t.total, *latency]
        for how, t, latency in (("one by one", alone, percentiles), ("batched", batched, [""] * 3))
    ]
    columns = ["sentences", "tokens/s", "sentences/s", "p50 ms", "p95 ms", "p99 ms"]
    return Table("Speed, and latency of a sentence", columns, rows)


# Memory


def memory_table(subject: Subject, tick: Tick) -> Table:
    """Tabulate the peak memory of the largest batch, and of each part beyond its start."""
    model, options = subject.model, subject.options
    sources = subject.read(subject.sentences)
    batch = max((ids for _, ids in batches(sources, options.beam_size)), key=_cells)
    decoder = TorchDecoder(model)

    def run() -> None:
        search(decoder, batch, BOS, EOS, options)

    title = f"Memory: a batch of {len(batch)}×{max(map(len, batch))} tokens"
    if model.output.weight.device.type != "cpu":
        rows: list[Row] = [["weights", weight_bytes(model) / MIB], *_gpu_peak(model, run)]
        rows.append(["  key-value cache in that", cache_bytes(subject, batch) / MIB])
        tick()
        tick()
        return Table(title, ["part", "MiB"], rows)
    whole = peak_bytes(run)
    tick()
    with named_spans(model, lambda _, part: part):
        parts = peaks_within(run, (ENCODING, *IN_A_STEP))
    tick()
    rows = [
        ["weights", weight_bytes(model) / MIB],
        ["peak of the whole search, without weights", whole / MIB],
        ["  key-value cache in that", cache_bytes(subject, batch) / MIB],
        [f"peak of {ENCODING}, beyond its start", parts[ENCODING] / MIB],
        ["peak of the layers of a decoding step", parts[REST] / MIB],
    ]
    inside = [part for part in IN_A_STEP if part not in (REST, OUTPUT)]
    rows += [[f"  {part}", parts[part] / MIB] for part in inside]
    rows.append([f"peak of the {OUTPUT}", parts[OUTPUT] / MIB])
    return Table(title, ["part", "MiB"], rows)


def _gpu_peak(model: nn.Module, run: Run) -> list[Row]:
    """Return the peak of CUDA's allocator; MPS has no such figure."""
    device = next(model.parameters()).device
    if device.type != "cuda":
        return []
    run()  # memory that is allocated once and kept does not count
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    peak = torch.cuda.max_memory_allocated(device) - before
    return [["peak of the whole search, without weights", peak / MIB]]


def _cells(batch: list[list[int]]) -> int:
    """Return the number of tokens of a batch, padding included."""
    return len(batch) * max(map(len, batch))


@contextmanager
def named_spans(model: Transformer, name_of: Callable[[str, str], str]) -> Iterator[None]:
    """Name the profiler's records of the model's modules, by module name and part."""
    spans: list[record_function] = []

    def enter(name: str, part: str) -> None:
        spans.append(record_function(name_of(name, part)))
        spans[-1].__enter__()

    def leave() -> None:
        spans.pop().__exit__(None, None, None)

    with around(model, enter, leave):
        yield


def cache_bytes(subject: Subject, batch: list[list[int]]) -> int:
    """Return the bytes of the key-value cache of a batch, at its full capacity."""
    options = subject.options
    length = options.max_length or int(output_limits(list(map(len, batch))).max())
    decoder = TorchDecoder(subject.model)
    return decoder.start(batch, len(batch), options.beam_size, length).cache.n_bytes


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of the weights; shared ones count once."""
    return sum(parameter.nbytes for parameter in model.parameters())


# A trace


def write_trace(subject: Subject, path: Path, steps: int = 4) -> None:
    """Write the first steps of the first sentence for about:tracing or Perfetto."""
    short, first = subject.shortened(steps), subject.sentences[:1]
    answer(short, first)  # warm up
    on_cuda = short.model.output.weight.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * on_cuda]
    save_text(path, "")  # raises a clear error if it cannot be written; torch's names no reason
    with (
        silent_stderr(),
        named_spans(short.model, lambda name, _: name),
        profile(activities=activities) as record,
        record_function("answer"),
    ):
        answer(short, first)
    record.export_chrome_trace(str(path))
