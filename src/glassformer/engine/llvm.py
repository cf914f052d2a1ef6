"""LLVM code from Python: types, and the few operations that the engine's intrinsics are made of.

A processor offers vectors of `LANES` 32-bit numbers. Functions here emit code through a builder
and return the value that this code computes.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from glassformer.engine.sizes import KERNEL, LANES

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


def load(
    b: Builder, address: Value, kind: ir.Type, offset: Value | int = 0, align: int = 4
) -> Value:
    at = b.add(address, offset if not isinstance(offset, int) else ir.Constant(I64, offset))
    return b.load(b.inttoptr(at, kind.as_pointer()), align=align)


def store(b: Builder, value: Value, address: Value, offset: Value | int = 0) -> None:
    at = b.add(address, offset if not isinstance(offset, int) else ir.Constant(I64, offset))
    b.store(value, b.inttoptr(at, value.type.as_pointer()), align=4)


def splat(b: Builder, value: Value) -> Value:
    """Return a vector with `value` in every lane."""
    kind = ir.VectorType(value.type, LANES)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    return b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def call(b: Builder, name: str, result: ir.Type, *arguments: Value) -> Value:
    kind = ir.FunctionType(result, [a.type for a in arguments])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), arguments)


def multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return x · y + z of vectors or floats: one instruction where the processor has it."""
    kind = f"v{LANES}f32" if isinstance(x.type, ir.VectorType) else "f32"
    return call(b, f"llvm.fmuladd.{kind}", x.type, x, y, z)


def larger(b: Builder, x: Value, y: Value) -> Value:
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def constant(kind: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * LANES if isinstance(kind, ir.VectorType) else value)


def exp_of(b: Builder, x: Value, top: Value) -> Value:
    """Return e^(x - top) for x ≤ top: 2^n · 2^rest, the latter by a polynomial on [-1, 0]."""
    floats = x.type
    in_hardware = KERNEL == "avx512-vnni" and isinstance(floats, ir.VectorType)
    integers = INTS if isinstance(floats, ir.VectorType) else I32
    t = b.fmul(b.fsub(x, top), constant(floats, LOG2_E))
    if in_hardware:
        rest = masked(b, "reduce", t, ir.Constant(I32, 2))  # t - ⌈t⌉
    else:
        t = larger(b, t, constant(floats, -126.0))  # below, 2^t is no normal float
        n = b.fptosi(t, integers)  # towards 0: up
        rest = b.fsub(t, b.sitofp(n, floats))
    p = constant(floats, EXP2[0])
    for factor in EXP2[1:]:
        p = multiply_add(b, p, rest, constant(floats, factor))
    if in_hardware:
        return masked(b, "scalef", p, b.fsub(t, rest))
    exponent = b.shl(n, constant(integers, 23))
    return b.bitcast(b.add(b.bitcast(p, integers), exponent), floats)


def masked(b: Builder, name: str, x: Value, y: Value) -> Value:
    """Emit an AVX-512 instruction of two operands with every lane on and the usual rounding."""
    every, current = ir.Constant(ir.IntType(16), -1), ir.Constant(I32, 4)
    name = f"llvm.x86.avx512.mask.{name}.ps.512"
    return call(b, name, FLOATS, x, y, constant(FLOATS, 0.0), every, current)


def dot4(b: Builder, total: Value, x: Value, w: Value) -> Value:
    """Return total + Σ of four products in each lane: x has unsigned bytes, w signed ones."""
    if KERNEL == "avx512-vnni":
        return call(b, "llvm.x86.avx512.vpdpbusd.512", INTS, total, x, w)
    if KERNEL == "avx-vnni":
        return call(b, "llvm.x86.avx512.vpdpbusd.256", INTS, total, x, w)
    if KERNEL == "avx2":
        as_bytes, as_pairs = ir.VectorType(I8, 4 * LANES), ir.VectorType(I16, 2 * LANES)
        x, w = b.bitcast(x, as_bytes), b.bitcast(w, as_bytes)
        pairs = call(b, "llvm.x86.avx2.pmadd.ub.sw", as_pairs, x, w)
        ones = ir.Constant(as_pairs, [1] * (2 * LANES))
        return b.add(total, call(b, "llvm.x86.avx2.pmadd.wd", INTS, pairs, ones))

    def shift(n: int) -> ir.Constant:
        return ir.Constant(INTS, [n] * LANES)

    for byte in range(4):  # move each byte to the top and back: unsigned of x, signed of w
        up = shift(24 - 8 * byte)
        x_byte, w_byte = b.lshr(b.shl(x, up), shift(24)), b.ashr(b.shl(w, up), shift(24))
        total = b.add(total, b.mul(x_byte, w_byte))
    return total


def each(
    b: Builder, n: Value, vector: Callable[[Value], None], single: Callable[[Value], None]
) -> None:
    """Emit a loop over n floats: vectors of LANES, then the rest one by one; given byte offsets."""
    whole = b.and_(n, ir.Constant(I64, -LANES))
    zero, lanes, one = (ir.Constant(I64, i) for i in (0, LANES, 1))
    with cgutils.for_range_slice(b, zero, whole, lanes) as (i, _):
        vector(b.mul(i, ir.Constant(I64, 4)))
    with cgutils.for_range_slice(b, whole, n, one) as (i, _):
        single(b.mul(i, ir.Constant(I64, 4)))


def variable(b: Builder, kind: ir.Type, value: Any) -> Value:
    """Return the address of a local variable, set to `value` here."""
    place = cgutils.alloca_once(b, kind)
    b.store(value if isinstance(value, ir.Value) else ir.Constant(kind, value), place)
    return place
