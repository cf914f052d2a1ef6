"""Images of machine code: what LLVM would link, loaded without it."""

import json
import subprocess
import sys
from ctypes import CFUNCTYPE, c_double, c_int32, c_int64, c_void_p

import numpy as np
import pytest
from llvmlite import binding

from glassformer.compiled.entry import NOWHERE, _linked_by_llvm
from glassformer.compiled.image import LOADS_IMAGES, image_of, load

pytestmark = pytest.mark.skipif(not LOADS_IMAGES, reason="images are for Linux on x86-64")

# f(_, _, kind, x, out): out[0] = a constant by `kind` from a table of jumps, out[1] = 2^x.
FUNCTION = """
@names = internal constant [4 x double] [double 2.5, double 3.5, double 4.5, double 5.5]
declare double @pow(double, double)
define i32 @entry(ptr %a, ptr %b, i64 %kind, double %x, ptr %out) {
  %at = getelementptr [4 x double], ptr @names, i64 0, i64 %kind
  %found = load double, ptr %at
  store double %found, ptr %out
  %power = call double @pow(double 2.0, double %x)
  %next = getelementptr double, ptr %out, i64 1
  store double %power, ptr %next
  ret i32 0
}
"""
VARIABLE = """
@count = global i64 1
define i32 @entry(ptr %a, ptr %b) {
  store i64 2, ptr @count
  ret i32 0
}
"""


def compiled(text: str, codemodel: str = "jitdefault") -> bytes:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        codemodel=codemodel, jit=codemodel == "jitdefault"
    )
    return machine.emit_object(binding.parse_assembly(text))


def called(address: int, kind: int, x: float) -> list[float]:
    out = np.zeros(2)
    function = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64, c_double, c_void_p)(address)
    function(NOWHERE, NOWHERE, kind, x, out.ctypes.data)
    return list(out)


def test_an_image_computes_what_llvm_links() -> None:
    code = compiled(FUNCTION)
    _kept, address = load(image_of(code, "entry"))
    _library, linked = _linked_by_llvm(code)
    for kind, constant in enumerate((2.5, 3.5, 4.5, 5.5)):
        expected = [constant, 2.0 ** (kind + 0.5)]
        assert called(address, kind, kind + 0.5) == called(linked, kind, kind + 0.5) == expected


def test_an_image_runs_at_two_addresses_at_once() -> None:
    image = image_of(compiled(FUNCTION), "entry")
    (_first, one), (_second, other) = load(image), load(image)
    assert one != other
    assert called(one, 1, 3.0) == called(other, 1, 3.0) == [3.5, 8.0]


def test_code_with_variables_of_its_own_is_refused() -> None:
    """It would be written to, and an image can only be read."""
    with pytest.raises(ValueError, match="variables of its own"):
        image_of(compiled(VARIABLE), "entry")


def test_code_that_needs_more_than_addresses_is_refused() -> None:
    with pytest.raises(ValueError, match="no address of 64 bits"):
        image_of(compiled(FUNCTION, codemodel="small"), "entry")


WITHOUT_LLVM = """
import json, sys
import glassformer.engine.model
print(json.dumps([name for name in ("llvmlite", "numba", "torch") if name in sys.modules]))
"""


def test_the_engine_is_imported_without_llvm() -> None:
    command = [sys.executable, "-c", WITHOUT_LLVM]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []
