"""`profile`: where the time and the memory of decoding go, and how the cost of a token grows.

Sentences are answered by the search that the pipeline uses, one by one and in batches, each time
once with the hooks of `stopwatch` and once without; `growth` makes its own short runs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from glassformer.bench.growth import (
    MIB,
    SOURCE_LENGTH,
    Growth,
    by_input,
    by_output,
    made_up,
)
from glassformer.bench.harness import Report, Row, Table, Tick
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
from glassformer.data.batch import pad
from glassformer.data.batching import TokenBatches
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.packed import PackedEmbedding, PackedLinear, pack
from glassformer.decode.replay import record
from glassformer.decode.search import SearchOptions, search
from glassformer.decode.session import Session, output_limits
from glassformer.errors import InputError
from glassformer.measure import peak_bytes, peaks_within, silent_stderr
from glassformer.model.build import build
from glassformer.model.cache import let_spares_go
from glassformer.model.transformer import Transformer
from glassformer.output import save_text
from glassformer.pipeline import BATCH_TOKENS, Translator
from glassformer.quantize import Int8Linear, quantize

ANSWER_LENGTH = 24  # tokens that random weights are made to say

# What is asked


@dataclass(frozen=True)
class Subject:
    """A model, what it is asked and how it is to answer. `read` gives ids, `write` takes them."""

    name: str
    model: Transformer
    sentences: Sequence[Any]
    read: Callable[[Sequence[Any]], list[list[int]]]
    write: Callable[[list[list[int]]], object]
    options: SearchOptions

    def shortened(self, tokens: int) -> "Subject":
        """Answers of exactly so many tokens."""
        return replace(self, options=replace(self.options, min_length=tokens, max_length=tokens))


def preset_subject(name: str, sentences: int, beam: int, int8: bool) -> Subject:
    """A preset with random weights, which cost what trained ones do; its answers have one length.

    It has no subwords: what it is asked are ids drawn at random.
    """
    if PRESETS[name].kind != "translator":
        raise InputError(
            f"{name} is a {PRESETS[name].kind}.",
            "What is profiled is decoding from a source, which translators do.",
            "Name another preset, such as vaswani2017-base, or the run of a translator.",
        )
    torch.manual_seed(0)
    model = build(name)
    assert isinstance(model, Transformer)
    sources = made_up(model, sentences, SOURCE_LENGTH)
    sources[:, -1] = EOS
    (quantize if int8 else pack)(model)
    record(model, often=0)
    title, options = f"{name} (random weights)", SearchOptions(beam)
    return Subject(title, model, sources.tolist(), list, list, options).shortened(ANSWER_LENGTH)


def run_subject(name: str, translator: Translator, texts: Sequence[str], beam: int) -> Subject:
    """A trained translator and sentences for it; what is longer than it was trained for is cut."""
    source, target = translator.source_tokenizer, translator.target_tokenizer

    def read(texts: Sequence[str]) -> list[list[int]]:
        return [[*ids[: translator.max_length], EOS] for ids in source.encode(texts)]

    def write(answers: list[list[int]]) -> list[str]:
        return [target.decode(ids) for ids in answers]

    record(translator.model, often=0)  # while warming up
    return Subject(name, translator.model, texts, read, write, translator.options(beam_size=beam))


# The whole


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    sentences: int = 64
    growth: Growth = field(default_factory=Growth)

    @classmethod
    def quick(cls, sentences: int) -> "Plan":
        """The same measurements in seconds: for tests, not for figures."""
        return cls(min(sentences, 4), Growth((4, 8, 16), window=2, rounds=1))

    def fitting(self, subject: Subject) -> "Plan":
        """As many sentences as there are, and no length that the model cannot take."""
        return Plan(len(subject.sentences), self.growth.fitting(subject.model))

    @property
    def steps(self) -> int:
        return self.sentences + 3 + self.growth.steps  # 3: the batches together, and two of memory


def profile_decoding(
    subject: Subject, plan: Plan, command: str, tick: Tick = lambda: None
) -> Report:
    """The tables of `glassformer profile`; the one ratio is what the cache saves at the end."""
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
        "Parts and the growing output are timed with hooks, one call from Python after the other; "
        "speed and latency without, where recordings are played back. One by one sentences took "
        f"{sum(alone.watched):.2f} s with the hooks and {alone.total:.2f} s without.",
        "Search is everything that is neither model nor subwords. Encoding includes the source's "
        "keys and values; the rest of a step its embedding, positions and sums.",
    ]
    return Report(command, tables, {f"cache at {longest}": float(uncached) / float(cached)}, notes)


def answer(
    subject: Subject, sentences: Sequence[Any], watch: Stopwatch | None = None
) -> list[list[int]]:
    """What is said to each sentence: text to ids, batches by length, search, and back to text."""
    watch = watch or Stopwatch()
    with watch.part(SEARCH):
        with watch.part(SUBWORDS):
            sources = subject.read(sentences)
        said: list[list[int]] = [[] for _ in sources]
        for rows, batch in batches(sources, subject.options.beam_size):
            found = search(subject.model, batch, BOS, EOS, subject.options)
            for i, hypotheses in zip(rows, found, strict=True):
                said[i] = hypotheses[0].ids
        with watch.part(SUBWORDS):
            subject.write(said)
    return said


def batches(sources: list[list[int]], beam: int) -> Iterator[tuple[list[int], Tensor]]:
    """Sentences of like length together, as the pipeline packs them: their numbers and ids."""
    lengths = np.array([len(ids) for ids in sources])
    for rows in TokenBatches(lengths, max(1, BATCH_TOKENS // beam)).epoch(0, shuffle=False):
        yield rows.tolist(), pad([sources[i] for i in rows])


# Time


class Timing(NamedTuple):
    """Sentences answered group by group, each group once as it is and once with hooks."""

    seconds: list[float]
    watched: list[float]  # the same with hooks
    parts: dict[str, float]  # of `watched`
    sentences: int
    tokens: int  # that were said, end marks not counted

    @property
    def total(self) -> float:
        return sum(self.seconds)


def timing(subject: Subject, groups: Sequence[Sequence[Any]], tick: Tick) -> Timing:
    watch, said = Stopwatch(), list[list[int]]()
    plain, watched = list[float](), list[float]()
    for group in groups:
        start = perf_counter()
        said += answer(subject, group)
        plain.append(perf_counter() - start)
        with around(subject.model, lambda _, part: watch.enter(part), watch.leave):
            start = perf_counter()
            answer(subject, group, watch)
            watched.append(perf_counter() - start)
        tick()
    return Timing(plain, watched, watch.seconds, len(said), sum(map(len, said)))


def time_table(subject: Subject, alone: Timing, batched: Timing) -> Table:
    """Milliseconds of a sentence and shares, by part; a step's parts stand indented under it."""

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
        row("the whole", *PARTS),
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
    """Of the largest batch; what each part takes, beyond what was there when it began."""
    model, options = subject.model, subject.options
    sources = subject.read(subject.sentences)
    source = max((ids for _, ids in batches(sources, options.beam_size)), key=Tensor.numel)

    def run() -> None:
        let_spares_go()
        search(model, source, BOS, EOS, options)

    whole = peak_bytes(run)
    tick()
    with named_spans(model, lambda _, part: part):
        parts = peaks_within(run, (ENCODING, *IN_A_STEP))
    tick()
    rows: list[Row] = [
        ["weights", weight_bytes(model) / MIB],
        ["peak of the whole search, beyond them", whole / MIB],
        ["  room of the key-value cache in that", cache_bytes(subject, source) / MIB],
        [f"peak of {ENCODING}, beyond what was there", parts[ENCODING] / MIB],
        ["peak of the layers of a decoding step", parts[REST] / MIB],
    ]
    inside = [part for part in IN_A_STEP if part not in (REST, OUTPUT)]
    rows += [[f"  {part}", parts[part] / MIB] for part in inside]
    rows.append([f"peak of the {OUTPUT}", parts[OUTPUT] / MIB])
    title = f"Memory: a batch of {source.size(0)}×{source.size(1)} tokens"
    return Table(title, ["what", "MiB"], rows)


@contextmanager
def named_spans(model: Transformer, name_of: Callable[[str, str], str]) -> Iterator[None]:
    """What the profiler records of the model's modules has names, out of module and part."""
    spans: list[record_function] = []

    def enter(name: str, part: str) -> None:
        spans.append(record_function(name_of(name, part)))
        spans[-1].__enter__()

    def leave() -> None:
        spans.pop().__exit__(None, None, None)

    with around(model, enter, leave):
        yield


@torch.inference_mode()
def cache_bytes(subject: Subject, source: Tensor) -> int:
    model, options = subject.model, subject.options
    length = options.max_length or int(output_limits(source, model.pad_id).max())
    session = Session([model], source, len(source), length, options.beam_size)
    return session.voices[0].cache.n_bytes


def weight_bytes(model: nn.Module) -> int:
    """Shared tensors count once; packed layers keep theirs where torch does not look."""
    parts = [m for m in model.modules() if not isinstance(m, PackedEmbedding)]
    own = chain.from_iterable((*m.parameters(False), *m.buffers(False)) for m in parts)
    tensors = {t.data_ptr(): t.nbytes for t in own if not t.is_mkldnn}
    packed = [m for m in model.modules() if isinstance(m, PackedLinear | Int8Linear)]
    return sum(tensors.values()) + sum(m.in_features * m.out_features * m.itemsize for m in packed)


# A trace


def write_trace(subject: Subject, path: Path, steps: int = 4) -> None:
    """The first steps of the first sentence for about:tracing or Perfetto, modules by name."""
    short, first = subject.shortened(steps), subject.sentences[:1]
    answer(short, first)  # what happens only once is left out
    save_text(path, "")  # torch would not say why it cannot
    with (
        silent_stderr(),
        named_spans(short.model, lambda name, _: name),
        profile(activities=[ProfilerActivity.CPU]) as record,
        record_function("answer"),
    ):
        answer(short, first)
    record.export_chrome_trace(str(path))
