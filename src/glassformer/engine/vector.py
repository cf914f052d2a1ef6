"""Vector instructions that Python has no words for, written as LLVM code.

Everything else in the engine is plain Python that Numba compiles. Here are the inner loops of the
matrix products, a few rows at a time against 64 outputs (a *tile*), for weights in eight bits and
in fp32, and the two loops of attention over one head: a dot product and a weighted sum.

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
VECTORS = 4  # running sums of a row in one tile
WIDTH = LANES * VECTORS  # outputs of a tile
# Rows of the largest tile: its sums, the weights and one input must fit the vector registers,
# 32 with AVX-512 and 16 without. Spilling them costs two thirds of the speed.
ROWS = 6 if LANES == 16 else 2
# Largest magnitude of an activation in INT8. Without VNNI, pairs of products are added in 16 bits,
# which overflow beyond 2 · 127 · 127: one bit less.
LEVELS = 63 if KERNEL == "avx2" else 127

SPINS = 2_000  # about 20 µs: longer than one thread is usually behind the other

I8, I16, I32, I64, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
INTS, FLOATS = ir.VectorType(I32, LANES), ir.VectorType(F32, LANES)

Builder = Any
Value = Any


def _load(b: Builder, address: Value, kind: ir.Type, offset: Value | int = 0, align: int = 4) -> Value:
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


def _exp(b: Builder, x: Value) -> Value:
    """Return e^x for x ≤ 0 to the accuracy of fp32: 2^n · e^rest, the latter by a polynomial."""
    floats = x.type
    integers = INTS if isinstance(floats, ir.VectorType) else I32
    x = _larger(b, x, _constant(floats, -87.0))  # below, e^x is no normal float
    log2_e, half = _constant(floats, 1.442695041), _constant(floats, -0.5)
    n = b.fptosi(_multiply_add(b, x, log2_e, half), integers)
    whole = b.sitofp(n, floats)
    r = _multiply_add(b, whole, _constant(floats, -0.693359375), x)  # x - n ln 2, in two parts
    r = _multiply_add(b, whole, _constant(floats, 2.12194440e-4), r)
    p = _constant(floats, 1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5, 1, 1):
        p = _multiply_add(b, p, r, _constant(floats, factor))
    exponent = b.shl(b.add(n, _constant(integers, 127)), _constant(integers, 23))
    return b.fmul(p, b.bitcast(exponent, floats))


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


def _each(b: Builder, n: Value, vector: Callable[[Value], None], single: Callable[[Value], None]) -> None:
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


def _tile(rows: int, int8: bool) -> Callable[..., None]:
    """Return tile(x, x_stride, w, steps, scale, offset, bias, x_scale, out, out_stride).

    Arguments are addresses, and strides in bytes. For INT8 a step is four inputs and
    out = (Σ x w - offset) · scale · x_scale + bias; for fp32 it is one and out = Σ x w + bias.
    """
    sums = INTS if int8 else FLOATS

    @intrinsic  # type: ignore[misc]
    def tile(context: Any, x: Any, x_stride: Any, w: Any, steps: Any, scale: Any, offset: Any,
             bias: Any, x_scale: Any, out: Any, out_stride: Any) -> Any:  # fmt: skip
        def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            x, x_stride, w, steps, scale, offset, bias, x_scale, out, out_stride = arguments
            zero = [0 if int8 else 0.0] * LANES
            totals = [[_variable(b, sums, zero) for _ in range(VECTORS)] for _ in range(rows)]
            starts = [b.add(x, b.mul(x_stride, ir.Constant(I64, r))) for r in range(rows)]
            with cgutils.for_range(b, steps) as loop:
                line = b.add(w, b.mul(loop.index, ir.Constant(I64, LINE)))
                weights = [
                    _load(b, line, sums, v * LANES * 4, align=LANES * 4) for v in range(VECTORS)
                ]
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

    return tile  # type: ignore[no-any-return]


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
_dot = _reduction("fadd", 0.0, lambda b, total, x, y: _multiply_add(b, x, y, total))
_total = _reduction("fadd", 0.0, lambda b, total, x: b.fadd(total, x))
_largest = _reduction("fmax", LOWEST, _larger)
_largest_magnitude = _reduction("fmax", 0.0, lambda b, t, x: _larger(b, t, _magnitude(b, x)))


@intrinsic  # type: ignore[misc]
def dot(context: Any, x: Any, y: Any, n: Any) -> Any:
    """Return Σ x[i] · y[i] over n floats at two addresses."""
    return types.float32(types.intp, types.intp, types.intp), _dot


@intrinsic  # type: ignore[misc]
def total(context: Any, x: Any, n: Any) -> Any:
    """Return Σ x[i] over n floats at an address."""
    return types.float32(types.intp, types.intp), _total


@intrinsic  # type: ignore[misc]
def largest(context: Any, x: Any, n: Any) -> Any:
    """Return the largest of n floats at an address; none of them is NaN."""
    return types.float32(types.intp, types.intp), _largest


@intrinsic  # type: ignore[misc]
def largest_magnitude(context: Any, x: Any, n: Any) -> Any:
    """Return the largest |x[i]| of n floats at an address; none of them is NaN."""
    return types.float32(types.intp, types.intp), _largest_magnitude


@intrinsic  # type: ignore[misc]
def add_scaled(context: Any, out: Any, x: Any, factor: Any, n: Any) -> Any:
    """Add factor · x[i] to out[i] for n floats at two addresses."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        out, x, factor, n = arguments
        factors = _splat(b, factor)

        def step(kind: ir.Type, scale: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                values = _load(b, x, kind, offset), _load(b, out, kind, offset)
                _store(b, _multiply_add(b, scale, *values), out, offset)

            return at

        _each(b, n, step(FLOATS, factors), step(F32, factor))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.float32, types.intp), emit


@intrinsic  # type: ignore[misc]
def exp(context: Any, x: Any) -> Any:
    """Return e^x for x ≤ 0."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        return _exp(b, arguments[0])

    return types.float32(types.float32), emit


@intrinsic  # type: ignore[misc]
def exponentiate(context: Any, x: Any, top: Any, n: Any, out: Any) -> Any:
    """Write e^(x[i] - top) of n floats at an address to `out`, and return their sum."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        x, top, n, out = arguments
        vectors, singles = _variable(b, FLOATS, [0.0] * LANES), _variable(b, F32, 0.0)
        tops = _splat(b, top)

        def step(kind: ir.Type, top: Value, total: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                e = _exp(b, b.fsub(_load(b, x, kind, offset), top))
                _store(b, e, out, offset)
                b.store(b.fadd(b.load(total), e), total)

            return at

        _each(b, n, step(FLOATS, tops, vectors), step(F32, top, singles))
        return b.fadd(_reduced(b, "fadd", b.load(vectors)), b.load(singles))

    return types.float32(types.intp, types.float32, types.intp, types.intp), emit


def _view(kind: Any) -> Any:
    """Return view(address, n): an array over memory that somebody else keeps."""

    @intrinsic  # type: ignore[misc]
    def view(context: Any, address: Any, n: Any) -> Any:
        array_type = types.Array(kind, 1, "C")

        def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            address, n = arguments
            array = context.make_array(array_type)(context, b)
            size = context.get_abi_sizeof(context.get_data_type(kind))
            data = b.inttoptr(address, context.get_data_type(kind).as_pointer())
            stride = ir.Constant(I64, size)
            populate_array(array, data, cgutils.pack_array(b, [n]), cgutils.pack_array(b, [stride]), stride, None)
            return array._getvalue()

        return array_type(types.intp, types.intp), emit

    return view


floats, int64s = _view(types.float32), _view(types.int64)
int32s, int8s, uint8s = _view(types.int32), _view(types.int8), _view(types.uint8)


@intrinsic  # type: ignore[misc]
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
            b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.VoidType(), []), "llvm.x86.sse2.pause"), [])
        with b.if_then(b.icmp_unsigned(">", spun, ir.Constant(I64, SPINS))):
            b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(I32, []), "sched_yield"), [])
        b.branch(head)
        b.position_at_end(end)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), emit
