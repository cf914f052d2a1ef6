"""Pictures, by matplotlib, which only these functions need."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from glassformer.errors import MissingPackageError


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingPackageError("matplotlib", "A picture", "plots") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def alignment_figure(
    attention: Float[Tensor, "m n"],
    source_words: Sequence[str],
    target_words: Sequence[str],
    gold: Iterable[tuple[int, int]],
    title: str,
    path: Path,
) -> None:
    """Attention between words as shades, the true links as frames: the shade should fill them."""
    pyplot = _pyplot()
    width, height = 2 + 0.45 * len(source_words), 1.6 + 0.4 * len(target_words)
    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    shades = axes.imshow(attention.numpy(), cmap="Blues", vmin=0, vmax=1)
    for source, target in gold:
        frame = (source - 0.5, target - 0.5)
        axes.add_patch(pyplot.Rectangle(frame, 1, 1, fill=False, edgecolor="#d1495b", lw=2))
    axes.set_xticks(range(len(source_words)), source_words, rotation=45, ha="right")
    axes.set_yticks(range(len(target_words)), target_words)
    axes.set_title(title, fontsize=10)
    figure.colorbar(shades, ax=axes, label="attention", shrink=0.8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
