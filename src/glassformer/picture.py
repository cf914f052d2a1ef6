"""Matplotlib figures in SVG or PNG files. Matplotlib is imported when a figure is drawn."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError, MissingPackageError
from glassformer.output import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SIZE = 30.0  # inches of width or height: 3,600 pixels at 120 dpi


def check(path: Path | None = None) -> None:
    """Raise if matplotlib is missing or the file suffix is not .svg or .png."""
    if path is not None and path.suffix not in (".svg", ".png"):
        raise InputError(
            f"{path.name} is not the name of a figure.",
            "The suffix decides the format.",
            "End the name with .svg or .png.",
        )
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingPackageError("matplotlib", "A figure", "plots") from None


def new_figure(width: float, height: float, layout: Any = "constrained") -> "Figure":
    """Return a figure without pyplot, whose global state threads would share."""
    check()
    from matplotlib.figure import Figure

    size = (min(width, MAX_SIZE), min(height, MAX_SIZE))
    return Figure(figsize=size, layout=layout)


def save(figure: "Figure", path: Path) -> None:
    """Save a figure; equal figures give equal bytes, and an SVG keeps its text as text."""
    from matplotlib import rc_context

    metadata = {"Date": None} if path.suffix == ".svg" else None
    options: Any = {"svg.hashsalt": "glassformer", "svg.fonttype": "none"}
    with rc_context(options), warnings.catch_warnings():
        # Matplotlib's font lacks some glyphs; an SVG viewer has other fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        with writing(path):
            figure.savefig(path, dpi=120, metadata=metadata)
