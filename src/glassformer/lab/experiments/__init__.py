"""One module per claim, and the order in which a learner may read them."""

import ast
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from glassformer.errors import DataError, SettingsError, did_you_mean
from glassformer.lab.experiment import Experiment

ORDER = (
    "scaling",
    "masking",
    "residual-norm",
    "initialisation",
    "heads",
    "positions",
    "embedding-scale",
    "label-smoothing",
    "warmup",
    "cost",
    "grouped-heads",
)


def names() -> list[str]:
    """Return the names of the experiments in this package."""
    found = {info.name.replace("_", "-") for info in iter_modules(__path__)}
    return sorted(found, key=lambda name: (place(name), name))


def place(name: str) -> int:
    """Return the position of an experiment in lists; experiments of users come last."""
    return ORDER.index(name) if name in ORDER else len(ORDER)


def claim(name: str) -> str:
    """Return the claim of an experiment in this package as its source has it, without torch."""
    source = Path(__path__[0], f"{name.replace('-', '_')}.py").read_text("utf-8")
    stated = (
        keyword.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == Experiment.__name__
        for keyword in node.keywords
        if keyword.arg == "claim"
    )
    return str(ast.literal_eval(next(stated)))


def find(name: str) -> Experiment:
    """Return an experiment by its name, or the experiment in a Python file."""
    if name.endswith(".py"):
        return _load(Path(name))
    if name not in names():
        raise SettingsError(
            f"There is no experiment {name!r}.",
            f"There are {', '.join(names())}; the name of a file ends in .py.",
            did_you_mean(name, names(), "List them: glassformer lab list."),
        )
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment


def _load(path: Path) -> Experiment:
    from glassformer.lab.trials import load_module

    if not path.is_file():
        raise DataError(
            f"There is no file {path}.",
            "A name that ends in .py is the file of an experiment.",
            f"Correct the path, or name one of {', '.join(names())}.",
        )
    module = load_module(f"own_experiment_{path.stem}", path.resolve())
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise DataError(
            f"{path} has no EXPERIMENT.",
            "The file of an experiment defines EXPERIMENT = Experiment(...).",
            "See the example in docs/lab.md.",
        )
    return experiment
