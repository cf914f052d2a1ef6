"""Vector instructions that Python has no words for, written as LLVM code.

Everything else in the engine is plain Python that Numba compiles. Here are the inner loops of the
matrix products, a few rows at a time against 64 outputs (a *tile*), for weights in eight bits and
in fp32; the two loops of attention over one head, `score_keys` and `weigh_values`; sums, maxima and
exponentials of many floats; and the barrier at which threads wait for each other.

A processor offers vectors of `LANES` 32-bit numbers. A tile keeps ROWS × VECTORS of them as running
sums in registers; all rows read the same weights, loaded once. The sum of one output is taken over
its inputs in order, whatever the number of rows: a row's result never depends on its neighbours.

Packed weights, for outputs n and inputs k:
    fp32    block n // 64, then k, then n % 64                       (64 floats = 256 bytes per k)
    INT8    block n // 64, then k // 4, then n % 64, then k % 4      (64 × 4 bytes = 256 per k // 4)
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from glassformer.compiled import kernel_name

BLOCK = 64  # outputs of a block of packed weights
LINE = 256  # bytes of a block for one k (fp32) or four (INT8)
KERNEL = kernel_name()
LANES = {"avx512-vnni": 16, "avx-vnni": 8, "avx2": 8, "generic": 4}[KERNEL]
KEYS = 16  # keys of attention that lie side by side
VECTORS = 4  # running sums of a row in one tile
WIDTH = LANES * VECTORS  # outputs of a tile
# Rows of the largest tile: its sums, the weights and one input must fit the vector registers,
# 32 with AVX-512 and 16 without. Spilling them costs two thirds of the speed.
ROWS = 6 if LANES == 16 else 2
# Largest magnitude of an activation in INT8. Without VNNI, pairs of products are added in 16 bits,
# which overflow beyond 2 · 127 · 127: one bit less.
LEVELS = 63 if KERNEL == "avx2" else 127

SPINS = 2_000  # about 20 µs: longer than one thread is usually behind the other

LOG2_E = 1.442695041
# 2^x on [-1, 0], highest power first, fitted to a relative error of 8e-8.
EXP2 = (9.3811646e-4, 9.1868741e-3, 5.5278134e-2, 2.4017158e-1, 6.9314218e-1, 9.9999994e-1)

I8, I16, I32, I64, F32 = (
    ir.IntType(8),
    ir.IntType(16),
    ir.IntType(32),
    ir.IntType(64),
    ir.FloatType(),
)
INTS, FLOATS = ir.VectorType(I32, LANES), ir.VectorType(F32, LANES)

Builder = Any
Value = Any
native: Any = intrinsic  # of a function that emits LLVM code: called with what that code takes


def _load(
    b: Builder, address: Value, kind: ir.Type, offset: Value | int = 0, align: int = 4
) -> Value:
    at = b.add(address, offset if not isinstance(offset, int) else ir.Constant(I64, offset))
    return b.load(b.inttoptr(at, kind.as_pointer()), align=align)


def _store(b: Builder, value: Value, address: Value, offset: Value | int = 0) -> None:
    at = b.add(address, offset if not isinstance(offset, int) else ir.Constant(I64, offset))
    b.store(value, b.inttoptr(at, value.type.as_pointer()), align=4)


def _splat(b: Builder, value: Value) -> Value:
    """Return a vector with `value` in every lane."""
    kind = ir.VectorType(value.type, LANES)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    return b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _call(b: Builder, name: str, result: ir.Type, *arguments: Value) -> Value:
    kind = ir.FunctionType(result, [a.type for a in arguments])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), arguments)


def _multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return x · y + z of vectors or floats: one instruction where the processor has it."""
    kind = f"v{LANES}f32" if isinstance(x.type, ir.VectorType) else "f32"
    return _call(b, f"llvm.fmuladd.{kind}", x.type, x, y, z)


def _larger(b: Builder, x: Value, y: Value) -> Value:
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def _constant(kind: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * LANES if isinstance(kind, ir.VectorType) else value)


def _exp(b: Builder, x: Value, top: Value) -> Value:
    """Return e^(x - top) for x ≤ top: 2^n · 2^rest, the latter by a polynomial on [-1, 0]."""
    floats = x.type
    integers = INTS if isinstance(floats, ir.VectorType) else I32
    t = b.fmul(b.fsub(x, top), _constant(floats, LOG2_E))
    t = _larger(b, t, _constant(floats, -126.0))  # below, 2^t is no normal float
    n = b.fptosi(t, integers)  # towards 0: up
    rest = b.fsub(t, b.sitofp(n, floats))
    p = _constant(floats, EXP2[0])
    for factor in EXP2[1:]:
        p = _multiply_add(b, p, rest, _constant(floats, factor))
    exponent = b.shl(n, _constant(integers, 23))
    return b.bitcast(b.add(b.bitcast(p, integers), exponent), floats)


def _dot4(b: Builder, total: Value, x: Value, w: Value) -> Value:
    """Return total + Σ of four products in each lane: x has unsigned bytes, w signed ones."""
    if KERNEL == "avx512-vnni":
        return _call(b, "llvm.x86.avx512.vpdpbusd.512", INTS, total, x, w)
    if KERNEL == "avx-vnni":
        return _call(b, "llvm.x86.avx512.vpdpbusd.256", INTS, total, x, w)
    if KERNEL == "avx2":
        as_bytes, as_pairs = ir.VectorType(I8, 4 * LANES), ir.VectorType(I16, 2 * LANES)
        x, w = b.bitcast(x, as_bytes), b.bitcast(w, as_bytes)
        pairs = _call(b, "llvm.x86.avx2.pmadd.ub.sw", as_pairs, x, w)
        ones = ir.Constant(as_pairs, [1] * (2 * LANES))
        return b.add(total, _call(b, "llvm.x86.avx2.pmadd.wd", INTS, pairs, ones))

    def shift(n: int) -> ir.Constant:
        return ir.Constant(INTS, [n] * LANES)

    for byte in range(4):  # move each byte to the top and back: unsigned of x, signed of w
        up = shift(24 - 8 * byte)
        x_byte, w_byte = b.lshr(b.shl(x, up), shift(24)), b.ashr(b.shl(w, up), shift(24))
        total = b.add(total, b.mul(x_byte, w_byte))
    return total


def _each(
    b: Builder, n: Value, vector: Callable[[Value], None], single: Callable[[Value], None]
) -> None:
    """Emit a loop over n floats: vectors of LANES, then the rest one by one; given byte offsets."""
    whole = b.and_(n, ir.Constant(I64, -LANES))
    zero, lanes, one = (ir.Constant(I64, i) for i in (0, LANES, 1))
    with cgutils.for_range_slice(b, zero, whole, lanes) as (i, _):
        vector(b.mul(i, ir.Constant(I64, 4)))
    with cgutils.for_range_slice(b, whole, n, one) as (i, _):
        single(b.mul(i, ir.Constant(I64, 4)))


def _variable(b: Builder, kind: ir.Type, value: Any) -> Value:
    """Return the place of a variable with a first value, set whenever the code comes by here."""
    place = cgutils.alloca_once(b, kind)
    b.store(value if isinstance(value, ir.Value) else ir.Constant(kind, value), place)
    return place


def _prefetch(b: Builder, line: Value) -> None:
    """Fetch weights into the cache before they are needed; nothing happens at a wrong address."""
    pointer = I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32])
    fetch = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0")
    flags = [ir.Constant(I32, flag) for flag in (0, 2, 1)]  # to read, second-level cache, data
    for part in range(0, WIDTH * 4, 64):
        b.call(fetch, [b.inttoptr(b.add(line, ir.Constant(I64, part)), pointer), *flags])


def _tile(rows: int, int8: bool) -> Callable[..., None]:
    """Return tile(x, x_stride, w, steps, scale, offset, bias, x_scale, out, out_stride).

    Arguments are addresses, and strides in bytes. For INT8 a step is four inputs and
    out = (Σ x w - offset) · scale · x_scale + bias; for fp32 it is one and out = Σ x w + bias.
    """
    sums = INTS if int8 else FLOATS

    @native
    def tile(context: Any, x: Any, x_stride: Any, w: Any, steps: Any, scale: Any, offset: Any,
             bias: Any, x_scale: Any, out: Any, out_stride: Any) -> Any:  # fmt: skip
        def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            x, x_stride, w, steps, scale, offset, bias, x_scale, out, out_stride = arguments
            zero = [0 if int8 else 0.0] * LANES
            totals = [[_variable(b, sums, zero) for _ in range(VECTORS)] for _ in range(rows)]
            starts = [b.add(x, b.mul(x_stride, ir.Constant(I64, r))) for r in range(rows)]
            block = b.mul(steps, ir.Constant(I64, LINE))
            with cgutils.for_range(b, steps) as loop:
                line = b.add(w, b.mul(loop.index, ir.Constant(I64, LINE)))
                weights = [
                    _load(b, line, sums, v * LANES * 4, align=LANES * 4) for v in range(VECTORS)
                ]
                if rows > 2:
                    _prefetch(b, b.add(line, block))
                at = b.mul(loop.index, ir.Constant(I64, 4))
                for r in range(rows):
                    value = _splat(b, _load(b, starts[r], I32 if int8 else F32, at))
                    for v in range(VECTORS):
                        total = b.load(totals[r][v])
                        step = (
                            _dot4(b, total, value, weights[v])
                            if int8
                            else _multiply_add(b, value, weights[v], total)
                        )
                        b.store(step, totals[r][v])
            for v in range(VECTORS):
                place = v * LANES * 4
                added = _load(b, bias, FLOATS, place)
                if int8:
                    scales, offsets = _load(b, scale, FLOATS, place), _load(b, offset, INTS, place)
                for r in range(rows):
                    result = b.load(totals[r][v])
                    if int8:
                        factor = b.fmul(scales, _splat(b, _load(b, x_scale, F32, 4 * r)))
                        exact = b.sitofp(b.sub(result, offsets), FLOATS)
                        result = _multiply_add(b, exact, factor, added)
                    else:
                        result = b.fadd(result, added)
                    _store(b, result, b.add(out, b.mul(out_stride, ir.Constant(I64, r))), place)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 10), emit

    return tile


int8_tile_1, int8_tile_2, int8_tile_3 = _tile(1, True), _tile(2, True), _tile(3, True)
int8_tile_4, int8_tile_5, int8_tile_6 = _tile(4, True), _tile(5, True), _tile(6, True)
fp32_tile_1, fp32_tile_2, fp32_tile_3 = _tile(1, False), _tile(2, False), _tile(3, False)
fp32_tile_4, fp32_tile_5, fp32_tile_6 = _tile(4, False), _tile(5, False), _tile(6, False)


def _reduced(b: Builder, name: str, vector: Value) -> Value:
    """Return the sum ("fadd") or the largest ("fmax") of a vector's lanes."""
    start = [ir.Constant(F32, 0.0)] if name == "fadd" else []
    kind = ir.FunctionType(F32, [F32] * len(start) + [FLOATS])
    reduce = f"llvm.vector.reduce.{name}.v{LANES}f32"
    function = cgutils.get_or_insert_function(b.module, kind, reduce)
    return b.call(function, [*start, vector], fastmath=("reassoc", "nnan"))


def _reduction(name: str, identity: float, combine: Callable[..., Value]) -> Any:
    """Return f(address, …, n): a reduction of n floats by vectors, in an order that n decides.

    `combine(b, total, *values)` works on vectors and on single floats.
    """

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        *addresses, n = arguments
        vectors = _variable(b, FLOATS, [identity] * LANES)
        singles = _variable(b, F32, identity)

        def step(kind: ir.Type, total: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                values = [_load(b, address, kind, offset) for address in addresses]
                b.store(combine(b, b.load(total), *values), total)

            return at

        _each(b, n, step(FLOATS, vectors), step(F32, singles))
        reduced = _reduced(b, name, b.load(vectors))
        last = b.load(singles)
        return b.fadd(reduced, last) if name == "fadd" else _larger(b, reduced, last)

    return emit


def _magnitude(b: Builder, x: Value) -> Value:
    name = f"llvm.fabs.v{LANES}f32" if isinstance(x.type, ir.VectorType) else "llvm.fabs.f32"
    return _call(b, name, x.type, x)


LOWEST = -3.4028234663852886e38  # of all floats
_total = _reduction("fadd", 0.0, lambda b, total, x: b.fadd(total, x))
_largest = _reduction("fmax", LOWEST, _larger)
_largest_magnitude = _reduction("fmax", 0.0, lambda b, t, x: _larger(b, t, _magnitude(b, x)))


@native
def total(context: Any, x: Any, n: Any) -> Any:
    """Return Σ x[i] over n floats at an address."""
    return types.float32(types.intp, types.intp), _total


@native
def total_square(context: Any, x: Any, mean: Any, n: Any) -> Any:
    """Return Σ (x[i] - mean)² over n floats at an address."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        x, mean, n = arguments
        vectors, singles = _variable(b, FLOATS, [0.0] * LANES), _variable(b, F32, 0.0)
        means = _splat(b, mean)

        def step(kind: ir.Type, mean: Value, total: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                rest = b.fsub(_load(b, x, kind, offset), mean)
                b.store(_multiply_add(b, rest, rest, b.load(total)), total)

            return at

        _each(b, n, step(FLOATS, means, vectors), step(F32, mean, singles))
        return b.fadd(_reduced(b, "fadd", b.load(vectors)), b.load(singles))

    return types.float32(types.intp, types.float32, types.intp), emit


@native
def largest(context: Any, x: Any, n: Any) -> Any:
    """Return the largest of n floats at an address; none of them is NaN."""
    return types.float32(types.intp, types.intp), _largest


@native
def largest_magnitude(context: Any, x: Any, n: Any) -> Any:
    """Return the largest |x[i]| of n floats at an address; none of them is NaN."""
    return types.float32(types.intp, types.intp), _largest_magnitude


@native
def score_keys(context: Any, q: Any, keys: Any, d_k: Any, scale: Any, out: Any) -> Any:
    """Write scale · q · k of a query and KEYS keys, which lie as (d_k, KEYS) floats, to `out`.

    Every fourth value is summed apart, so that an addition need not wait for the one before.
    """
    parts, chains = KEYS // LANES, 4

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        q, keys, d_k, scale, out = arguments
        totals = [_variable(b, FLOATS, [0.0] * LANES) for _ in range(chains * parts)]

        def step(i: Value, chain: int) -> None:
            at = b.add(i, ir.Constant(I64, chain))
            value = _splat(b, _load(b, q, F32, b.mul(at, ir.Constant(I64, 4))))
            line = b.add(keys, b.mul(at, ir.Constant(I64, 4 * KEYS)))
            for part in range(parts):
                place = totals[chains * part + chain]
                key = _load(b, line, FLOATS, 4 * LANES * part)
                b.store(_multiply_add(b, value, key, b.load(place)), place)

        zero, one, four = (ir.Constant(I64, i) for i in (0, 1, chains))
        whole = b.and_(d_k, ir.Constant(I64, -chains))
        with cgutils.for_range_slice(b, zero, whole, four) as (i, _):
            for chain in range(chains):
                step(i, chain)
        with cgutils.for_range_slice(b, whole, d_k, one) as (i, _):
            step(i, 0)
        factor = _splat(b, scale)
        for part in range(parts):
            first, second, third, fourth = (b.load(t) for t in totals[chains * part :][:chains])
            total = b.fadd(b.fadd(first, second), b.fadd(third, fourth))
            _store(b, b.fmul(total, factor), out, 4 * LANES * part)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.float32, types.intp), emit


@native
def weigh_values(context: Any, weights: Any, values: Any, step: Any, storages: Any, size: Any,
                 n: Any, d_k: Any, factor: Any, out: Any) -> Any:  # fmt: skip
    """Write factor · Σ weights[p] · value p, d_k floats, of n values to `out`.

    Value p is at values + p · step + storages[p] · size, with int32 storages, or 0 for none.
    """

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        weights, values, step, storages, size, n, d_k, factor, out = arguments
        has_storages = b.icmp_signed("!=", storages, ir.Constant(I64, 0))
        none = _variable(b, I32, 0)  # the storage where there is but one
        listed = b.select(has_storages, storages, b.ptrtoint(none, I64))
        stride = b.select(has_storages, ir.Constant(I64, 4), ir.Constant(I64, 0))

        def columns(kind: ir.Type, count: int, start: Value) -> None:
            """Sum `count` vectors (or one float) from column `start` on."""
            zero = [0.0] * LANES if kind is FLOATS else 0.0
            totals = [_variable(b, kind, zero) for _ in range(count)]
            at = b.mul(start, ir.Constant(I64, 4))
            with cgutils.for_range(b, n) as loop:
                p = loop.index
                weight = _load(b, weights, F32, b.mul(p, ir.Constant(I64, 4)))
                storage = b.sext(_load(b, listed, I32, b.mul(p, stride)), I64)
                row = b.add(b.add(values, at), b.add(b.mul(p, step), b.mul(storage, size)))
                w = _splat(b, weight) if kind is FLOATS else weight
                for i, total in enumerate(totals):
                    value = _load(b, row, kind, 4 * LANES * i)
                    b.store(_multiply_add(b, w, value, b.load(total)), total)
            scale = _splat(b, factor) if kind is FLOATS else factor
            for i, total in enumerate(totals):
                _store(b, b.fmul(b.load(total), scale), b.add(out, at), 4 * LANES * i)

        done = ir.Constant(I64, 0)
        for kind, count in ((FLOATS, VECTORS), (FLOATS, 2), (FLOATS, 1), (F32, 1)):
            width = ir.Constant(I64, count * LANES if kind is FLOATS else 1)
            end = b.add(done, b.mul(b.sdiv(b.sub(d_k, done), width), width))
            with cgutils.for_range_slice(b, done, end, width) as (start, _):
                columns(kind, count, start)
            done = end
        return context.get_dummy_value()

    integers = [types.intp] * 7
    return types.void(*integers, types.float32, types.intp), emit


@native
def exp(context: Any, x: Any) -> Any:
    """Return e^x for x ≤ 0."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        return _exp(b, arguments[0], ir.Constant(F32, 0.0))

    return types.float32(types.float32), emit


@native
def exponentiate(context: Any, x: Any, top: Any, n: Any, out: Any) -> Any:
    """Write e^(x[i] - top) of n floats at an address to `out`, and return their sum."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        x, top, n, out = arguments
        vectors, singles = _variable(b, FLOATS, [0.0] * LANES), _variable(b, F32, 0.0)
        tops = _splat(b, top)

        def step(kind: ir.Type, top: Value, total: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                e = _exp(b, _load(b, x, kind, offset), top)
                _store(b, e, out, offset)
                b.store(b.fadd(b.load(total), e), total)

            return at

        _each(b, n, step(FLOATS, tops, vectors), step(F32, top, singles))
        return b.fadd(_reduced(b, "fadd", b.load(vectors)), b.load(singles))

    return types.float32(types.intp, types.float32, types.intp, types.intp), emit


def _view(kind: Any) -> Any:
    """Return view(address, n): an array over memory that somebody else keeps."""

    @native
    def view(context: Any, address: Any, n: Any) -> Any:
        array_type = types.Array(kind, 1, "C")

        def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            address, n = arguments
            array = context.make_array(array_type)(context, b)
            size = context.get_abi_sizeof(context.get_data_type(kind))
            data = b.inttoptr(address, context.get_data_type(kind).as_pointer())
            stride = ir.Constant(I64, size)
            populate_array(
                array,
                data,
                cgutils.pack_array(b, [n]),
                cgutils.pack_array(b, [stride]),
                stride,
                None,
            )
            return array._getvalue()

        return array_type(types.intp, types.intp), emit

    return view


floats, int64s = _view(types.float32), _view(types.int64)
int32s, int8s, uint8s = _view(types.int32), _view(types.int8), _view(types.uint8)


@native
def wait_for_all(context: Any, counter: Any, n_threads: Any) -> Any:
    """Wait until every one of `n_threads` threads has come here as often as this one.

    `counter` is the address of an int64 that begins at 0. A waiting thread spins for some
    microseconds, then yields its core, so that on a busy machine it does not hold up the others.
    """

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        counter, n = arguments
        place = b.inttoptr(counter, I64.as_pointer())
        one = ir.Constant(I64, 1)
        before = b.atomic_rmw("add", place, one, "seq_cst")
        target = b.mul(b.add(b.udiv(before, n), one), n)  # the end of this round
        spins = _variable(b, I64, 0)
        head, body, end = (b.append_basic_block(name) for name in ("wait", "spin", "together"))
        b.branch(head)
        b.position_at_end(head)
        arrived = b.load_atomic(place, "acquire", 8)
        b.cbranch(b.icmp_unsigned(">=", arrived, target), end, body)
        b.position_at_end(body)
        spun = b.add(b.load(spins), one)
        b.store(spun, spins)
        if KERNEL != "generic":  # x86's hint that this is a loop that waits
            b.call(
                cgutils.get_or_insert_function(
                    b.module, ir.FunctionType(ir.VoidType(), []), "llvm.x86.sse2.pause"
                ),
                [],
            )
        with b.if_then(b.icmp_unsigned(">", spun, ir.Constant(I64, SPINS))):
            b.call(
                cgutils.get_or_insert_function(b.module, ir.FunctionType(I32, []), "sched_yield"),
                [],
            )
        b.branch(head)
        b.position_at_end(end)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), emit
