"""Campaign `memory`: neither translations nor loads of a model make the process grow.

Memory is measured after a warm-up. Allocators keep blocks for later, in amounts that vary from run
to run; a leak of one row of floats a sentence, or of one tensor a load, is beyond the limits.
"""

from collections.abc import Callable
from pathlib import Path

from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.bench.faults.threads import MODEL
from glassformer.data import grammar
from glassformer.machine import resident_memory
from glassformer.pipeline import load_translator

MIB = 2**20
SENTENCES, LOADS = 20_000, 200
WARM_UP = 0.2  # share of the sentences and loads after which memory is measured
LIMIT = 24  # MiB: 1.5 kB of each sentence after the warm-up, a twentieth of the weights of a load
BATCH = 100  # sentences of a call


def begin(folder: Path, sentences: int = SENTENCES, loads: int = LOADS) -> Trial:
    """Translate on even seeds, load on odd ones."""

    def trial(seed: int) -> Result:
        if seed % 2:
            return grown("loads", loads, lambda number: load_translator(MODEL).translate("A dog."))
        model = load_translator(MODEL)
        texts = [pair.source for pair in grammar.pairs("test", 10 * BATCH)]

        def translate(number: int) -> None:
            first = number * BATCH % len(texts)
            model.translate(texts[first : first + BATCH], beam_size=1)

        return grown("sentences", sentences // BATCH, translate, BATCH)

    return trial


def grown(what: str, count: int, work: Callable[[int], object], each: int = 1) -> Result:
    """Repeat work; return the growth of resident memory after the warm-up."""
    before = 0
    for number in range(count):
        if number == round(WARM_UP * count):
            before = resident_memory() or 0
        work(number)
    growth = ((resident_memory() or 0) - before) / MIB
    lost = (f"{growth:.1f} MiB more after {count * each:,} {what}",) if growth > LIMIT else ()
    return Result(count * each, lost, figures=((f"MiB of growth by {what}", round(growth, 1)),))


CAMPAIGN = Campaign("memory", begin, trials=2, quick=2, seconds=600.0)
