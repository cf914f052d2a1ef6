"""Compile Python functions with Numba. Only what compiles imports this file.

    @inner
    def scale(x: Address, n: int, factor: float) -> None: ...

An entry is a plain function of integers (which may be addresses) and floats that calls inner ones.
It sees arrays and structs through `view` and `struct_at`.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, codegen, compiler, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from glassformer.compiled.entry import SYMBOL

_njit: Any = numba.njit  # which has no types for all of its options
native: Any = intrinsic  # of a function that emits LLVM code: called with what that code takes
F = TypeVar("F", bound=Callable[..., Any])
# Without reference counts: compiled code owns no memory.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "boundscheck": False, "_nrt": False}
# Wrappers that let Python and C call a function take as long to compile as the function.
INNER: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
KINDS = {"q": types.int64, "d": types.float64}


def inner(function: F) -> F:
    """Compile `function` into the functions that call it; Python cannot call it."""
    return _njit(**INNER, **OPTIONS)(function)


def inlined(function: F) -> F:
    """Put `function` into the functions that call it, before they are compiled.

    For what is short or called once: Numba compiles every other function on its own, and again
    inside each function that calls it.
    """
    return _njit(inline="always", **INNER, **OPTIONS)(function)


class _Library(codegen.JITCodeLibrary):
    """LLVM code of a function and all that it calls, as Numba lowers it.

    Numba's own library optimises and assembles that code once for every function on the way up to
    the entry, each time with all that it calls. `machine_code` does it once, for the whole.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_specific(self) -> None:
        pass


class _Codegen(codegen.JITCPUCodegen):
    """Makes LLVM code for this processor; nothing of it is loaded into this process."""

    _library_class = _Library

    def _add_module(self, module: Any) -> None:
        pass

    def set_env(self, env_name: str, env: Any) -> None:
        pass


@cache
def _codegen() -> Any:
    return _Codegen("glassformer")


@contextmanager
def _lowering_only() -> Iterator[None]:
    """Let Numba stop at LLVM code, while no other thread can compile with it.

    Numba makes some millions of objects that it keeps; looking for cycles among them would take a
    sixth of the time.
    """
    context, collects = cpu_target.target_context, gc.isenabled()
    with global_compiler_lock:
        usual, context._internal_codegen = context.codegen(), _codegen()
        gc.disable()
        try:
            yield
        finally:
            context._internal_codegen = usual
            if collects:
                gc.enable()


def machine_code(function: Callable[..., None], kinds: str) -> bytes:
    """Return an object file with `function` under the name SYMBOL.

    It takes two addresses before its arguments, where Numba's functions write their result and
    their exception; entries have neither.
    """
    flags: Any = compiler.Flags()  # whose fields have no types
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.error_model = "numpy"
    arguments = tuple(KINDS[kind] for kind in kinds)
    contexts = cpu_target.typing_context, cpu_target.target_context
    with _lowering_only():
        made = compiler.compile_extra(*contexts, function, arguments, types.void, flags, {})
        made.library.finalize()
    module = binding.parse_assembly(made.library.get_llvm_str())
    for each in module.functions:
        if each.name == made.fndesc.mangled_name:
            each.name = SYMBOL
        elif not each.is_declaration:
            each.linkage = "internal"  # called from this module only
    code: bytes = _optimised(module).emit_object(module)
    return code


def _optimised(module: Any) -> Any:
    """Optimise a module; return the machine that it is optimised for."""
    triple, name, features = _codegen().magic_tuple()
    machine = binding.Target.from_triple(triple).create_target_machine(
        cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault", jit=True
    )
    options = binding.create_pipeline_tuning_options(3)
    options.loop_vectorization, options.slp_vectorization = True, False  # as Numba has them
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return machine


def _view(kind: Any) -> Any:
    """Return view(address, shape): an array over memory that it does not own.

    `shape` is a number, or a tuple of numbers.
    """

    @native
    def view(context: Any, address: Any, shape: Any) -> Any:
        array_type = types.Array(kind, getattr(shape, "count", 1), "C")

        def emit(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
            address, shape = arguments
            sizes = cgutils.unpack_tuple(b, shape) if array_type.ndim > 1 else [shape]
            array = context.make_array(array_type)(context, b)
            item = ir.Constant(ir.IntType(64), np.dtype(str(kind)).itemsize)
            strides = [item]
            for size in reversed(sizes[1:]):
                strides.insert(0, b.mul(strides[0], size))
            populate_array(
                array,
                b.inttoptr(address, context.get_data_type(kind).as_pointer()),
                cgutils.pack_array(b, sizes),
                cgutils.pack_array(b, strides),
                item,
                None,
            )
            return array._getvalue()

        return array_type(address, shape), emit

    return view


floats, float64s, int64s = _view(types.float32), _view(types.float64), _view(types.int64)
int32s, int8s, uint8s = _view(types.int32), _view(types.int8), _view(types.uint8)
bools = _view(types.boolean)


def struct_at(kind: np.dtype[Any]) -> Any:
    """Return at(address): the struct of this kind that lies there."""
    record = numba.from_dtype(kind)

    @native
    def at(context: Any, address: Any) -> Any:
        def emit(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
            return b.inttoptr(arguments[0], context.get_value_type(record))

        return record(types.int64), emit

    return at
