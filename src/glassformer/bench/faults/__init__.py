"""`bench faults`: deliberate faults, and whether runs, files and requests survive them.

`glassformer.bench.faults(...)` is `glassformer.api.bench.faults`.
"""

from glassformer.callable_module import make_callable

make_callable(__name__, "glassformer.api.bench", "faults")
