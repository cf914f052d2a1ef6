"""Pictures on the disk, by matplotlib, which nothing else needs: SVG or PNG by the file's name."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError, MissingPackageError
from glassformer.output import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 30.0  # inches


def check(path: Path | None = None) -> None:
    """A missing package or a name that is no picture's is told before the work, not after."""
    if path is not None and path.suffix not in (".svg", ".png"):
        raise InputError(
            f"{path.name} is no name of a picture.",
            "The kind of picture is told by the suffix.",
            "End the name with .svg or .png.",
        )
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingPackageError("matplotlib", "A picture", "plots") from None


def new_figure(width: float, height: float, layout: Any = "constrained") -> "Figure":
    """Apart from pyplot: nothing to close, and nothing that threads would share."""
    check()
    from matplotlib.figure import Figure

    size = (min(width, LARGEST), min(height, LARGEST))
    return Figure(figsize=size, layout=layout)


def save(figure: "Figure", path: Path) -> None:
    """The same bytes for the same figure. Text stays text in an SVG, whatever its script."""
    from matplotlib import rc_context

    metadata = {"Date": None} if path.suffix == ".svg" else None
    options: Any = {"svg.hashsalt": "glassformer", "svg.fonttype": "none"}
    with rc_context(options), warnings.catch_warnings():
        # A letter that matplotlib's own font lacks: an SVG shows it all the same.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        with writing(path):
            figure.savefig(path, dpi=120, metadata=metadata)
