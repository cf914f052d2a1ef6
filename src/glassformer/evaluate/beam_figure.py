"""A figure of BLEU and time against beam width."""

from pathlib import Path

from glassformer import picture
from glassformer.evaluate.beams import BeamComparison

SIGNIFICANT = 0.05  # p below which a point is filled
BLUE, RED = "#1f5f8b", "#d1495b"


def beam_figure(comparison: BeamComparison, path: str | Path) -> None:
    """Draw BLEU and time against width; the suffix of `path` chooses SVG or PNG."""
    path = Path(path)
    picture.check(path)
    results = comparison.results
    widths = [result.beam for result in results]
    figure = picture.new_figure(6.4, 4)
    left = figure.add_subplot()
    right = left.twinx()
    left.plot(widths, [r.bleu for r in results], color=BLUE)
    for result in results:
        significant = result.bleu_p is not None and result.bleu_p < SIGNIFICANT
        fill = BLUE if significant else "white"
        left.plot(result.beam, result.bleu, "o", mec=BLUE, mfc=fill, ms=7)
    right.plot(widths, [1 / r.relative_speed for r in results], "s--", color=RED, ms=4)
    left.set_xscale("log", base=2)
    left.set_xticks(widths, [str(width) for width in widths])
    left.minorticks_off()
    left.set_xlabel("beam width (1 is greedy)")
    left.set_ylabel(f"BLEU (filled: p < {SIGNIFICANT} against greedy)", color=BLUE)
    right.set_ylabel("time ÷ time of greedy", color=RED)
    right.set_ylim(bottom=0)
    left.set_title(f"Greedy against beam, {comparison.sentences:,} sentences", fontsize=10)
    picture.save(figure, path)
