"""One file per claim, in the order in which a learner might read them."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from glassformer.errors import DataError, SettingsError, nearest
from glassformer.lab.experiment import Experiment
from glassformer.lab.trials import load_module

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
    """Of the experiments that come with the package."""
    there = {info.name.replace("_", "-") for info in iter_modules(__path__)}
    return sorted(there, key=lambda name: (place(name), name))


def place(name: str) -> int:
    """Where an experiment stands in a list; a user's own come last."""
    return ORDER.index(name) if name in ORDER else len(ORDER)


def find(name: str) -> Experiment:
    """An experiment by its name, or a user's own by its file."""
    if name.endswith(".py"):
        return _of_file(Path(name))
    if name not in names():
        raise SettingsError(
            f"There is no experiment {name!r}.",
            f"There are {', '.join(names())}; your own is a file that ends in .py.",
            f"Did you mean {nearest(name, names())!r}?",
        )
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment


def _of_file(path: Path) -> Experiment:
    if not path.is_file():
        raise DataError(
            f"There is no file {path}.",
            "A name that ends in .py is the file of your own experiment.",
            f"Mend the path, or name one of {', '.join(names())}.",
        )
    module = load_module(f"own_experiment_{path.stem}", path.resolve())
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise DataError(
            f"{path} has no EXPERIMENT.",
            "The file of an experiment says EXPERIMENT = Experiment(...).",
            "See docs/lab.md for the shape of one.",
        )
    return experiment
