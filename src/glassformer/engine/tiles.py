"""Matrix products and attention for a few rows at a time, as LLVM code.

Everything else in the engine is plain Python that Numba compiles. A *tile* multiplies a few rows by
64 outputs, with weights in eight bits or in fp32: it keeps ROWS × VECTORS vectors of running sums
in registers, and all rows read the same weights, loaded once. `score_keys` and `weigh_values` are
the same loop over the keys and values of one head. A product sums over its inputs in one order for
any number of rows. A score of one query is summed in four parts, scores of several queries in one;
which of the two it is follows from the query's position in its own sentence. So a row's result
never depends on other sentences.

Packed weights, for outputs n and inputs k:
    fp32    block n // 64, then k, then n % 64                       (64 floats = 256 bytes per k)
    INT8    block n // 64, then k // 4, then n % 64, then k % 4      (64 × 4 bytes = 256 per k // 4)
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from glassformer.compiled.build import native
from glassformer.engine.llvm import (
    F32,
    FLOATS,
    I8,
    I32,
    I64,
    INTS,
    Builder,
    Value,
    constant,
    dot4,
    load,
    multiply_add,
    splat,
    store,
    variable,
)
from glassformer.engine.sizes import KEYS, LANES, LINE, ROWS, VECTORS, WIDTH


def _prefetch(b: Builder, line: Value) -> None:
    """Fetch weights into the cache before they are needed; nothing happens at a wrong address."""
    pointer = I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32])
    fetch = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0")
    flags = [ir.Constant(I32, flag) for flag in (0, 2, 1)]  # to read, second-level cache, data
    for part in range(0, WIDTH * 4, 64):
        b.call(fetch, [b.inttoptr(b.add(line, ir.Constant(I64, part)), pointer), *flags])


def _accumulate(
    b: Builder,
    steps: Value,
    inputs: list[Value],
    line: Callable[[Value], Value],
    starts: list[Value],
    prefetch: Value | None = None,
    chains: int = 1,
) -> list[list[Value]]:
    """Emit sums over k of inputs[r][k] · (the vectors at line(k)); return them by row and vector.

    `starts` are the first values of the sums: vectors of floats or, for INT8, of integers. With
    `chains`, every chains-th k has sums of its own, so that an addition need not wait for the one
    before; they are added at the end.
    """
    kind = starts[0].type
    single, add = (I32, dot4) if kind == INTS else (F32, _add_product)
    zeros = [constant(kind, 0.0)] * len(starts)
    totals = [
        [[variable(b, kind, start) for start in (starts if chain == 0 else zeros)] for _ in inputs]
        for chain in range(chains)
    ]

    def step(k: Value, chain: int) -> None:
        at, address = b.mul(k, ir.Constant(I64, 4)), line(k)
        weights = [load(b, address, kind, v * LANES * 4) for v in range(len(starts))]
        if prefetch is not None:
            _prefetch(b, b.add(address, prefetch))
        for x, places in zip(inputs, totals[chain], strict=True):
            value = load(b, x, single, at)
            value = value if kind == F32 else splat(b, value)
            for weight, place in zip(weights, places, strict=True):
                b.store(add(b, b.load(place), value, weight), place)

    whole = b.and_(steps, ir.Constant(I64, -chains))
    zero, one, many = (ir.Constant(I64, i) for i in (0, 1, chains))
    with cgutils.for_range_slice(b, zero, whole, many) as (k, _):
        for chain in range(chains):
            step(b.add(k, ir.Constant(I64, chain)), chain)
    if chains > 1:
        with cgutils.for_range_slice(b, whole, steps, one) as (k, _):
            step(k, 0)
    return [
        [_summed(b, [b.load(chain[r][v]) for chain in totals]) for v in range(len(starts))]
        for r in range(len(inputs))
    ]


def _add_product(b: Builder, total: Value, x: Value, y: Value) -> Value:
    return multiply_add(b, x, y, total)


def _summed(b: Builder, values: list[Value]) -> Value:
    """Return the sum of one, two or four vectors, by pairs."""
    while len(values) > 1:
        values = [b.fadd(x, y) for x, y in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _rows(b: Builder, address: Value, stride: Value, n: int) -> list[Value]:
    """Return the addresses of n rows."""
    return [b.add(address, b.mul(stride, ir.Constant(I64, r))) for r in range(n)]


def _tile(int8: bool) -> Callable[..., None]:
    """Return tile(rows, x, x_stride, w, steps, scale, offset, bias, x_scale, out, out_stride).

    Arguments are addresses, and strides in bytes; 1 to ROWS rows. For INT8 a step is four inputs
    and out = (Σ x w - offset) · scale · x_scale + bias; for fp32 one and out = Σ x w + bias.
    """
    places = [v * LANES * 4 for v in range(VECTORS)]

    def emit_rows(b: Builder, rows: int, arguments: Any) -> None:
        x, x_stride, w, steps, scale, offset, bias, x_scale, out, out_stride = arguments

        def line(k: Value) -> Value:
            return b.add(w, b.mul(k, ir.Constant(I64, LINE)))

        starts: list[Value] = [constant(FLOATS, 0.0)] * VECTORS
        if int8:
            starts = [b.sub(constant(INTS, 0), load(b, offset, INTS, place)) for place in places]
        ahead = b.mul(steps, ir.Constant(I64, LINE)) if rows > 2 else None
        totals = _accumulate(b, steps, _rows(b, x, x_stride, rows), line, starts, ahead)
        outputs = _rows(b, out, out_stride, rows)
        for v, place in enumerate(places):
            added = load(b, bias, FLOATS, place)
            scales = load(b, scale, FLOATS, place) if int8 else None
            for r in range(rows):
                result = totals[r][v]
                if int8:
                    factor = b.fmul(scales, splat(b, load(b, x_scale, F32, 4 * r)))
                    result = multiply_add(b, b.sitofp(result, FLOATS), factor, added)
                else:
                    result = b.fadd(result, added)
                store(b, result, outputs[r], place)

    @native
    def tile(context: Any, rows: Any, x: Any, x_stride: Any, w: Any, steps: Any, scale: Any,
             offset: Any, bias: Any, x_scale: Any, out: Any, out_stride: Any) -> Any:  # fmt: skip
        def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            end = b.append_basic_block("end")
            heights = b.switch(arguments[0], end)
            for rows in range(1, ROWS + 1):
                block = b.append_basic_block(f"rows_{rows}")
                heights.add_case(ir.Constant(I64, rows), block)
                b.position_at_end(block)
                emit_rows(b, rows, arguments[1:])
                b.branch(end)
            b.position_at_end(end)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 11), emit

    return tile


int8_tile, fp32_tile = _tile(int8=True), _tile(int8=False)


def _score_keys(rows: int) -> Callable[..., None]:
    """Return score(q, q_stride, keys, d_k, scale, out, out_stride) for so many queries.

    It writes scale · q · k of each query and KEYS keys, which lie as (d_k, KEYS) floats.
    """

    @native
    def score(context: Any, q: Any, q_stride: Any, keys: Any, d_k: Any, scale: Any, out: Any,
              out_stride: Any) -> Any:  # fmt: skip
        def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            q, q_stride, keys, d_k, scale, out, out_stride = arguments

            def line(k: Value) -> Value:
                return b.add(keys, b.mul(k, ir.Constant(I64, 4 * KEYS)))

            starts = [constant(FLOATS, 0.0)] * (KEYS // LANES)
            inputs, outputs = _rows(b, q, q_stride, rows), _rows(b, out, out_stride, rows)
            chains = 4 if rows == 1 else 2 if rows == 2 else 1  # about four sums at a time
            totals = _accumulate(b, d_k, inputs, line, starts, chains=chains)
            factor = splat(b, scale)
            for to, sums in zip(outputs, totals, strict=True):
                for part, total in enumerate(sums):
                    store(b, b.fmul(total, factor), to, 4 * LANES * part)
            return context.get_dummy_value()

        integers = [types.intp] * 4
        return types.void(*integers, types.float32, types.intp, types.intp), emit

    return score


def _weigh_values(rows: int) -> Callable[..., None]:
    """Return weigh(weights, stride, values, step, slots, size, n, d_k, factors, out, to_stride).

    It writes factors[r] · Σ weights[r][p] · value p, d_k floats, of n values for so many rows.
    Value p is at values + p · step + slots[p] · size, with int32 slots, or 0 for none.
    """

    @native
    def weigh(context: Any, weights: Any, stride: Any, values: Any, step: Any, slots: Any,
              size: Any, n: Any, d_k: Any, factors: Any, out: Any,
              to_stride: Any) -> Any:  # fmt: skip
        def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            weights, stride, values, step, slots, size, n, d_k, factors, out, to_stride = arguments
            has_slots = b.icmp_signed("!=", slots, ir.Constant(I64, 0))
            none = variable(b, I32, 0)  # the slot where there is but one
            listed = b.select(has_slots, slots, b.ptrtoint(none, I64))
            next_one = b.select(has_slots, ir.Constant(I64, 4), ir.Constant(I64, 0))
            inputs, outputs = _rows(b, weights, stride, rows), _rows(b, out, to_stride, rows)

            def columns(kind: ir.Type, count: int, start: Value) -> None:
                """Sum so many vectors (or one float) from column `start` on."""
                at = b.mul(start, ir.Constant(I64, 4))

                def line(p: Value) -> Value:
                    slot = b.sext(load(b, listed, I32, b.mul(p, next_one)), I64)
                    return b.add(b.add(values, at), b.add(b.mul(p, step), b.mul(slot, size)))

                totals = _accumulate(b, n, inputs, line, [constant(kind, 0.0)] * count)
                for r, sums in enumerate(totals):
                    factor = load(b, factors, F32, 4 * r)
                    factor = factor if kind == F32 else splat(b, factor)
                    for i, total in enumerate(sums):
                        place = 4 * LANES * i
                        store(b, b.fmul(total, factor), b.add(outputs[r], at), place)

            done = ir.Constant(I64, 0)
            for kind, count in ((FLOATS, VECTORS), (FLOATS, 2), (FLOATS, 1), (F32, 1)):
                width = ir.Constant(I64, count * LANES if kind is FLOATS else 1)
                end = b.add(done, b.mul(b.sdiv(b.sub(d_k, done), width), width))
                with cgutils.for_range_slice(b, done, end, width) as (start, _):
                    columns(kind, count, start)
                done = end
            return context.get_dummy_value()

        return types.void(*[types.intp] * 11), emit

    return weigh


score_keys, score_keys_of_rows = _score_keys(1), _score_keys(ROWS)
weigh_values, weigh_values_of_rows = _weigh_values(1), _weigh_values(ROWS)
