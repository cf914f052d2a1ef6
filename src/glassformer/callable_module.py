"""Packages that can be called: `glassformer.train(...)` beside `glassformer.train.loop`."""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that passes calls on to one function, which is imported when it is needed."""

    _function: tuple[str, str]  # module and name

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._resolved()(*arguments, **options)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, which `inspect.signature` and notebooks show the arguments of."""
        return self._resolved()

    def _resolved(self) -> Callable[..., Any]:
        module, name = self._function
        found: Callable[..., Any] = getattr(import_module(module), name)
        return found


def make_callable(module: str, home: str, name: str) -> None:
    """Let a call of `module` call `home.name`.

    The names of the public functions are those of packages. Importing any module of such a package
    replaces the attribute of `glassformer` by the package, so the package itself must be callable.
    """
    package = sys.modules[module]
    package.__class__ = CallableModule
    package.__dict__["_function"] = (home, name)
