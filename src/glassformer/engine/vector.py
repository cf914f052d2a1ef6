"""Sums, maxima and exponentials of many floats, and the barrier of threads, as LLVM code."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from glassformer.compiled.build import native
from glassformer.engine.llvm import (
    F32,
    FLOATS,
    I32,
    I64,
    Builder,
    Value,
    call,
    each,
    exp_of,
    larger,
    load,
    multiply_add,
    splat,
    store,
    variable,
)
from glassformer.engine.sizes import KERNEL, LANES

# Looks before a waiting thread sleeps, about 300 µs: longer than a sleep, so that a thread that
# overslept does not send the others to sleep at the next barrier.
SPINS = 30_000
# Microseconds of a sleep. A thread that wakes up gets its core back at once; one that yields it
# waits for the time slice of another process, some milliseconds.
PAUSE = 50


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
        vectors = variable(b, FLOATS, [identity] * LANES)
        singles = variable(b, F32, identity)

        def step(kind: ir.Type, total: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                values = [load(b, address, kind, offset) for address in addresses]
                b.store(combine(b, b.load(total), *values), total)

            return at

        each(b, n, step(FLOATS, vectors), step(F32, singles))
        reduced = _reduced(b, name, b.load(vectors))
        last = b.load(singles)
        return b.fadd(reduced, last) if name == "fadd" else larger(b, reduced, last)

    return emit


def _magnitude(b: Builder, x: Value) -> Value:
    name = f"llvm.fabs.v{LANES}f32" if isinstance(x.type, ir.VectorType) else "llvm.fabs.f32"
    return call(b, name, x.type, x)


LOWEST = -3.4028234663852886e38  # of all floats
_total = _reduction("fadd", 0.0, lambda b, total, x: b.fadd(total, x))
_largest = _reduction("fmax", LOWEST, larger)
_largest_magnitude = _reduction("fmax", 0.0, lambda b, t, x: larger(b, t, _magnitude(b, x)))


@native
def total(context: Any, x: Any, n: Any) -> Any:
    """Return Σ x[i] over n floats at an address."""
    return types.float32(types.intp, types.intp), _total


@native
def total_square(context: Any, x: Any, mean: Any, n: Any) -> Any:
    """Return Σ (x[i] - mean)² over n floats at an address."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        x, mean, n = arguments
        vectors, singles = variable(b, FLOATS, [0.0] * LANES), variable(b, F32, 0.0)
        means = splat(b, mean)

        def step(kind: ir.Type, mean: Value, total: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                rest = b.fsub(load(b, x, kind, offset), mean)
                b.store(multiply_add(b, rest, rest, b.load(total)), total)

            return at

        each(b, n, step(FLOATS, means, vectors), step(F32, mean, singles))
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
def exp(context: Any, x: Any) -> Any:
    """Return e^x for x ≤ 0."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        return exp_of(b, arguments[0], ir.Constant(F32, 0.0))

    return types.float32(types.float32), emit


@native
def exponentiate(context: Any, x: Any, top: Any, n: Any, out: Any) -> Any:
    """Write e^(x[i] - top) of n floats at an address to `out`, and return their sum."""

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        x, top, n, out = arguments
        vectors, singles = variable(b, FLOATS, [0.0] * LANES), variable(b, F32, 0.0)
        tops = splat(b, top)

        def step(kind: ir.Type, top: Value, total: Value) -> Callable[[Value], None]:
            def at(offset: Value) -> None:
                e = exp_of(b, load(b, x, kind, offset), top)
                store(b, e, out, offset)
                b.store(b.fadd(b.load(total), e), total)

            return at

        each(b, n, step(FLOATS, tops, vectors), step(F32, top, singles))
        return b.fadd(_reduced(b, "fadd", b.load(vectors)), b.load(singles))

    return types.float32(types.intp, types.float32, types.intp, types.intp), emit


@native
def wait_for_all(context: Any, counter: Any, n_threads: Any) -> Any:
    """Wait until every one of `n_threads` threads has come here as often as this one.

    `counter` is the address of an int64 that begins at 0. A waiting thread spins for some
    microseconds, then sleeps between looks, so that on a busy machine others have its core.
    """

    def emit(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
        counter, n = arguments
        place = b.inttoptr(counter, I64.as_pointer())
        one = ir.Constant(I64, 1)
        before = b.atomic_rmw("add", place, one, "seq_cst")
        target = b.mul(b.add(b.udiv(before, n), one), n)  # the end of this round
        spins = variable(b, I64, 0)
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
            call(b, "usleep", I32, ir.Constant(I32, PAUSE))
        b.branch(head)
        b.position_at_end(end)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), emit
