"""Variants of the user's own: register a class or function, and recipes can name it.

    positions     class, built with those of d_model, n_heads, d_k, max_positions, max_distance and
                  bidirectional that its constructor names; see model/positions.py
    norm          class, built with d_model
    feed_forward  class, built with those of d_model, d_ff, bias and dropout that it names
    attention     function with the arguments of `scaled_dot_product_attention`
    schedule      function (step, warmup, total) -> factor of the peak rate, after the warm-up
    optimizer     function (model, ...) -> optimisers, with those of learning_rate, muon_rate,
                  weight_decay and betas that it names
    metric        function (outputs, references) -> score of a translator; higher is better

Modules in the environment variable GLASSFORMER_IMPORT (names with commas between) are imported
before a name is looked up: so the command line and processes of a run know them, too.
"""

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.errors import InputError, SettingsError, did_you_mean

VARIABLE = "GLASSFORMER_IMPORT"
OF_MODEL = ("positions", "norm", "feed_forward", "attention")
KINDS = (*OF_MODEL, "schedule", "optimizer", "metric")
ALIASES = {"norms": "norm", "feed_forwards": "feed_forward", "attentions": "attention"}
ALIASES |= {"schedules": "schedule", "optimizers": "optimizer", "metrics": "metric"}

_registered: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
_imported: set[str] = set()


def register(kind: str, name: str, what: Any) -> Any:
    """Register `what` under a name that settings of its kind may then have; return it.

    gf.register("positions", "my-scheme", MyPositions)
    gf.build("tiny", positions="my-scheme")
    """
    kind = ALIASES.get(kind, kind)
    if kind not in KINDS:
        raise InputError(
            f"There is no kind of variant {kind!r}.",
            f"The kinds are {', '.join(KINDS)}.",
            did_you_mean(kind, KINDS, "Take one of these."),
        )
    if not name or not callable(what):
        raise InputError(
            f"{what!r} cannot be registered as {name!r}.",
            "A variant is a class or function, and its name is not empty.",
            f'For example: register("{kind}", "my-own", MyOwn).',
        )
    _registered[kind][name] = what
    return what


def registered(kind: str) -> dict[str, Any]:
    """Return what is registered of a kind, by name."""
    for module in filter(None, os.environ.get(VARIABLE, "").split(",")):
        if module not in _imported:
            _imported.add(module)
            _import(module.strip())
    return _registered[kind]


def _import(module: str) -> None:
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        import_module(module)
    except ImportError as error:
        raise SettingsError(
            f"{VARIABLE} names {module!r}, which cannot be imported: {error}.",
            "It names Python modules that register variants, as `import` does, without .py.",
            f"Correct it, or unset {VARIABLE}.",
        ) from None
    finally:
        sys.path[:] = before


def find(kind: str, name: str, built_in: dict[str, Any]) -> Any:
    """Return a built-in variant, or a registered one. Settings have checked that there is one."""
    return built_in[name] if name in built_in else registered(kind)[name]


def call(what: Callable[..., Any], **values: Any) -> Any:
    """Call a registered variant with those of the values that its parameters name."""
    parameters = inspect.signature(what).parameters
    if any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return what(**values)
    return what(**{name: value for name, value in values.items() if name in parameters})
