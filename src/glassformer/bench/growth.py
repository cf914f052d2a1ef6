"""Cost of one more token as the output grows and as the input grows.

With the cache, a step computes one token whatever the output's length; without it, all tokens
again. A longer input costs more to encode, and a little more at every step that attends to it.
Each table ends with the exponent p of the fit cost ≈ c · n^p of each column.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.torch_decoder import TorchDecoder, TorchDecoding
from glassformer.device import wait_for
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Run, Tick, best_seconds, exponent
from glassformer.model.masks import padding_mask
from glassformer.model.positions import LearnedPositions
from glassformer.model.transformer import Transformer

SOURCE_LENGTH = 20  # tokens of a random source
MIB = 2**20


@dataclass(frozen=True)
class Growth:
    """Lengths to measure at, and repetitions."""

    lengths: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    window: int = 8  # last steps before a length, whose median is its cost
    rounds: int = 3

    def fitting(self, model: Transformer) -> "Growth":
        """Leave out lengths beyond the learned positions."""
        tables = [
            stack.positions.weight.size(0)
            for stack in (model.encoder, model.decoder)
            if isinstance(stack.positions, LearnedPositions)
        ]
        longest = min(tables, default=max(self.lengths))
        return replace(self, lengths=tuple(sorted({min(n, longest) for n in self.lengths})))

    @property
    def steps(self) -> int:
        return (1 + 2 * len(self.lengths)) * (self.rounds + 1)


def by_output(model: Transformer, growth: Growth, tick: Tick) -> Table:
    """Tabulate the cost of a token as the output grows, with and without the cache."""
    source = random_sources(model, 1, SOURCE_LENGTH)
    cached, uncached = [], []
    for _ in range(growth.rounds + 1):  # in turns, and the best of each counts
        cached.append(cached_steps(model, source, max(growth.lengths)))
        uncached.append(uncached_steps(model, source, growth.lengths))
        tick()
    once, again = _best(cached), _best(uncached)
    rows: list[Row] = []
    for n, plain in zip(growth.lengths, again, strict=True):
        last = once[max(0, n - growth.window) : n]
        spent = median(step.seconds for step in last)
        rows.append([n, 1e3 * spent, last[-1].tokens, 1e3 * plain.seconds, plain.tokens])
    columns = ["tokens out", "cached, ms", "tokens read", "uncached, ms", "tokens read"]
    title = f"One more token as the output grows: one sentence of {SOURCE_LENGTH}, greedily"
    return Table(title, columns, [*rows, _exponents(rows)])


@torch.inference_mode()
def by_input(model: Transformer, growth: Growth, tick: Tick) -> Table:
    """Tabulate the cost of encoding a source, and of a step that attends to it."""
    sources = {str(n): random_sources(model, 1, n) for n in growth.lengths}
    reading: dict[str, Run] = {n: partial(encode, model, source) for n, source in sources.items()}
    read = best_seconds(reading, growth.rounds, tick)
    steps = growth.window * (growth.rounds + 1)
    decodings = {n: _start(model, source, steps) for n, source in sources.items()}
    stepping: dict[str, Run] = {
        n: partial(_advance, d, growth.window) for n, d in decodings.items()
    }
    stepped = best_seconds(stepping, growth.rounds, tick)
    rows: list[Row] = []
    for n, decoding in decodings.items():
        reads, step = 1e3 * read[n], 1e3 * stepped[n] / growth.window
        rows.append([int(n), reads, 1e3 * reads / int(n), step, _source_bytes(decoding) / MIB])
    columns = ["tokens in", "encoding, ms", "µs a token", "a step, ms", "keys and values, MiB"]
    title = "Cost as the input grows: one sentence, greedily"
    return Table(title, columns, [*rows, _exponents(rows)])


class Step(NamedTuple):
    seconds: float
    tokens: int  # that went through the decoder for it


@torch.inference_mode()
def cached_steps(model: Transformer, source: Tensor, count: int) -> list[Step]:
    """Time the first `count` steps of one sentence."""
    with _tokens_read(model) as tokens:
        decoding = _start(model, source, count)
        return _timed([partial(_advance, decoding)] * count, tokens)


@torch.inference_mode()
def uncached_steps(model: Transformer, source: Tensor, lengths: Sequence[int]) -> list[Step]:
    """Time the step to each of `lengths` when all tokens before it are computed again."""
    mask = padding_mask(source, model.pad_id)
    memory = model.encoder(source, mask)

    def step(n: int) -> Tensor:
        ids = torch.full((1, n), BOS, device=source.device)
        return model.output(model.decode(ids, memory, mask)[:, -1:])

    with _tokens_read(model) as tokens:
        return _timed([partial(_waited, step, n) for n in lengths], tokens)


@contextmanager
def _tokens_read(model: Transformer) -> Iterator[list[int]]:
    """Count the tokens that the decoder computes in each call."""
    tokens: list[int] = []

    def count(_: object, args: tuple[Tensor, ...]) -> None:
        tokens.append(args[0].size(1))

    with model.decoder.register_forward_pre_hook(count):
        yield tokens


def _timed(runs: Iterable[Run], tokens: list[int]) -> list[Step]:
    """Time each run; `tokens` are those that it computed."""
    seconds: list[float] = []
    for run in runs:
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return [Step(*both) for both in zip(seconds, tokens, strict=True)]


def _waited(step: Callable[[int], Tensor], n: int) -> None:
    wait_for(step(n).device)


def _best(rounds: list[list[Step]]) -> list[Step]:
    return [min(turns) for turns in zip(*rounds, strict=True)]


def _start(model: Transformer, source: Tensor, max_length: int) -> TorchDecoding:
    return TorchDecoder(model).start(source.tolist(), 1, 1, max_length)


def _advance(decoding: TorchDecoding, steps: int = 1) -> None:
    for _ in range(steps):
        decoding.step(np.full((1, 1), BOS))
    wait_for(decoding.device)


@torch.inference_mode()
def encode(model: Transformer, source: Tensor) -> Tensor:
    memory: Tensor = model.encoder(source, padding_mask(source, model.pad_id))
    wait_for(source.device)
    return memory


def random_sources(model: Transformer, batch: int, length: int) -> Tensor:
    """Return sources of random tokens, none of them special."""
    table = model.encoder.embedding.weight
    return torch.randint(EOS + 1, table.size(0), (batch, length), device=table.device)


def _source_bytes(decoding: TorchDecoding) -> int:
    caches = [layer.cross_attention for layer in decoding.cache.layers]
    return sum(cache.k.nbytes + cache.v.nbytes for cache in caches if cache is not None)


def _exponents(rows: list[Row]) -> Row:
    sizes, *costs = np.array(rows, float).T.tolist()
    return ["grows as n^", *(exponent(sizes, column) for column in costs)]
