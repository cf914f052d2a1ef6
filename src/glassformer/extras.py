"""Optional packages, and the extra of this package that installs each."""

from importlib.util import find_spec

from glassformer.errors import MissingPackageError

EXTRAS = {  # extra: a package that it installs, and what needs it
    "train": ("torch", 'training, inspection, experiments, engine="torch"'),
    "plots": ("matplotlib", "pictures"),
    "tensorboard": ("tensorboard", "curves of training"),
    "moses": ("sacremoses", "BLEU on tokenised references"),
    "hf": ("datasets", "WMT14"),
    "interop": ("tokenizers", "imported models: their tokenizers, GGUF, chat templates"),
    "peers": ("ctranslate2", "comparisons of speed"),
    "serve": ("uvicorn", "the explorer and the HTTP API"),
}


def is_installed(package: str) -> bool:
    """Return whether `package` can be imported, without importing it."""
    return find_spec(package) is not None


def require_torch(needed_for: str) -> None:
    """Raise an error that names the extra to install, unless torch is installed."""
    if not is_installed("torch"):
        raise MissingPackageError("torch", needed_for, "train")
