"""`bench faults`: faults that are made on purpose, and what survives them.

`glassformer.bench.faults(...)` is `glassformer.api.bench.faults`.
"""

from glassformer.callable_module import make_callable

make_callable(__name__, "glassformer.api.bench", "faults")
