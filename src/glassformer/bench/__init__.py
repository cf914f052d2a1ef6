"""Speed and memory beside other libraries.

Modules with the name of a measurement can be called: `glassformer.bench.decode(...)` is
`glassformer.api.bench.decode`.
"""

from importlib import import_module
from types import ModuleType

from glassformer.extras import require_torch

MEASUREMENTS = (
    *(
        "busy",
        "classify",
        "course",
        "decode",
        "faults",
        "generate",
        "interop",
        "model",
        "same_bits",
        "serve",
    ),
    *("start", "time_to_bleu", "train"),
)
_IMPORT_TORCH = ("decode", "model", "train")


def __getattr__(name: str) -> ModuleType:
    if name not in MEASUREMENTS:
        raise AttributeError(f"module 'glassformer.bench' has no attribute {name!r}")
    if name in _IMPORT_TORCH:
        require_torch(f"glassformer.bench.{name}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return [*globals(), *MEASUREMENTS]
