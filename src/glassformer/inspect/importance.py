"""Importance of heads: the change in BLEU of a translator when one head at a time is masked."""

from glassformer.evaluate.bleu import bleu
from glassformer.evaluate.significance import paired_test
from glassformer.inspect.masking import HeadIndex, head_indices, without_each
from glassformer.pipeline import Translator
from glassformer.progress import Watch

TRIALS = 1_000  # permutations of the paired test; p is then known to about 0.001


def importance(
    model: Translator,
    sources: list[str],
    references: list[str],
    beam: int,
    truncate: bool,
    watch: Watch,
) -> tuple[float, dict[HeadIndex, tuple[float, float | None]]]:
    """Return BLEU, and for each head its change without it and the p of that change."""

    def translate() -> list[str]:
        return model.translate(sources, beam, split=False, typeset=False, truncate=truncate)

    whole = translate()
    with watch("masking heads", len(head_indices(model.model))) as tick:
        masked = without_each(model.model, translate, tick)
    systems = {1: whole} | dict(enumerate(masked.values(), 2))
    p_values = paired_test(systems, references, TRIALS, baseline=1)[0]["BLEU"]
    score = bleu(whole, references)
    return score, {
        place: (bleu(texts, references) - score, p_values.get(number))
        for number, (place, texts) in enumerate(masked.items(), 2)
    }
