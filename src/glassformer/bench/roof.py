"""Roofline of decoding: the speed that memory bandwidth and arithmetic of this machine allow.

A step reads every weight of the decoder once, for all rows of the batch, and multiplies it with
each row. The slower of the two limits every engine. Norms, search and reading keys and values are
left out, so the roof is an upper bound.
"""

from collections.abc import Callable
from functools import cache
from math import prod
from time import perf_counter
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from glassformer.bench.engines import Ids
from glassformer.config import ModelSettings
from glassformer.engine.model import CompiledModel
from glassformer.engine.shapes import expected_shape, matrix_names, norm_names
from glassformer.engine.threads import together

_njit: Any = numba.njit  # which has no types for all of its options
SIDE = 512  # outputs and inputs of the product that is measured: its weights stay in the cache
ROWS = (96, 384)  # of that product; the faster one counts


class Machine(NamedTuple):
    """The threads on which limits are measured, and the `seconds` of each measurement."""

    threads: int
    seconds: float = 0.3

    def fastest(self, work: Callable[[int], None]) -> float:
        """Return the minimal seconds in which all threads do their part of `work`."""
        best, end = float("inf"), perf_counter() + self.seconds
        while perf_counter() < end:
            begin = perf_counter()
            together(work, self.threads)
            best = min(best, perf_counter() - begin)
        return best


class Roof(NamedTuple):
    """The minimal seconds of some work, and the limiting resource."""

    seconds: float
    limit: str


class Phase(NamedTuple):
    """The work of encoding or decoding, the same for every engine."""

    weights: int  # that each pass reads
    passes: int
    products: int  # multiply-adds with weights
    attention: int  # multiply-adds with keys and values, which are in fp32

    def roof(self, int8: bool, machine: Machine) -> Roof:
        n_bytes = self.weights * (1 if int8 else 4)
        reading = self.passes * n_bytes / bandwidth(n_bytes, machine)
        computing = self.products / peak(int8, machine) + self.attention / peak(False, machine)
        return max(Roof(reading, "memory"), Roof(computing, "arithmetic"))


def decoding_roof(
    s: ModelSettings,
    batches: list[Ids],
    outputs: Ids,
    beam: int,
    longest: int,
    int8: bool,
    machine: Machine,
) -> Roof:
    """Return the roof of decoding `batches` to `outputs`, the encoder included."""
    phases = phases_of(s, batches, outputs, beam, longest)
    encoding, decoding = (phase.roof(int8, machine) for phase in phases)
    return Roof(encoding.seconds + decoding.seconds, decoding.limit)


def phases_of(
    s: ModelSettings, batches: list[Ids], outputs: Ids, beam: int, longest: int
) -> tuple[Phase, Phase]:
    """Count the work of encoding and of decoding; a beam takes no fewer steps than its output."""
    encoder, step = weights_of(s)
    lengths = iter([min(len(ids) + 1, longest) for ids in outputs])  # the end mark is a step
    passes, products, attention = [len(batches), 0], [0, 0], [0, 0]
    for batch in batches:
        steps = [next(lengths) for _ in batch]
        passes[1] += max(steps)
        for n, t in zip(map(len, batch), steps, strict=True):
            rows = 1 + (t - 1) * beam  # the first step has one hypothesis
            products[0] += encoder * n
            products[1] += step * rows
            attention[0] += 2 * n * n * s.encoder_layers * s.d_model
            attention[1] += (2 * n + t + 1) * rows * s.decoder_layers * s.d_model
    first, second = zip((encoder, step), passes, products, attention, strict=True)
    return Phase(*first), Phase(*second)


def weights_of(s: ModelSettings) -> tuple[int, int]:
    """Return the number of weights that encoding reads, and that one step of decoding reads."""
    sizes = {name: prod(expected_shape(s, name)) for _, name in matrix_names(s)}
    per_source = {name for name in sizes if name.endswith("cross_attention.kv")}
    per_source |= {name for name in sizes if name.startswith("encoder.layers")}
    per_step = {name for name in sizes if name.startswith("decoder.layers")} - per_source
    encoder, step = (sum(sizes[name] for name in names) for names in (per_source, per_step))
    return encoder, step + s.vocab_size * s.d_model  # the output projection


@cache
def bandwidth(n_bytes: int, machine: Machine) -> float:
    """Return the bytes per second at which all threads read a buffer of this size again and again.

    A small one is read from a cache, as small weights are.
    """
    parts = np.array_split(np.ones(max(n_bytes // 8, machine.threads), np.int64), machine.threads)
    times = max(1, 20_000_000 // max(n_bytes, 1))  # per measurement: starting threads costs time

    def read(thread: int) -> None:
        total(parts[thread], times)

    total(parts[0], 1)  # compile
    return times * n_bytes / machine.fastest(read)


@_njit(nogil=True)
def total(values: NDArray[np.int64], times: int) -> int:
    """Return the sum of all values, read `times` times."""
    found = 0
    for _ in range(times):
        for i in range(len(values)):
            found += values[i]
    return found


@cache
def peak(int8: bool, machine: Machine) -> float:
    """Return the multiply-adds per second of the engine's matrix product on all threads."""
    model = _one_matrix(int8)
    return max(_product_speed(model, n_rows, machine) for n_rows in ROWS)


def _product_speed(model: CompiledModel, n_rows: int, machine: Machine) -> float:
    workspaces = [model.borrow(n_rows, 1, 1, 1) for _ in range(machine.threads)]
    for workspace in workspaces:
        workspace.outputs[0][:n_rows, :SIDE] = np.random.default_rng(0).normal(size=(n_rows, SIDE))

    def multiply(thread: int) -> None:
        for _ in range(8):  # per measurement: starting threads costs time
            model.logits(workspaces[thread], n_rows)

    multiply(0)  # compile
    return 8 * machine.threads * n_rows * SIDE * SIDE / machine.fastest(multiply)


def _one_matrix(int8: bool) -> CompiledModel:
    """Return a language model whose output projection is SIDE × SIDE."""
    s = ModelSettings(
        kind="language-model",
        vocab_size=SIDE,
        d_model=SIDE,
        n_heads=8,
        d_ff=64,
        decoder_layers=1,
        attention_bias=False,
        feed_forward_bias=False,
    )
    numbers = np.random.default_rng(0)
    weights: dict[str, NDArray[np.float32]] = {
        f"{name}.weight": numbers.normal(size=expected_shape(s, name)).astype(np.float32)
        for _, name in matrix_names(s)
    }
    for _, name in norm_names(s):
        weights[f"{name}.gain"] = np.ones(SIDE, np.float32)
        weights[f"{name}.bias"] = np.zeros(SIDE, np.float32)
    return CompiledModel(s, weights, int8=int8)
