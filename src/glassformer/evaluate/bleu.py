"""BLEU of a translator, by sacreBLEU."""

from collections.abc import Sequence

import sacrebleu

from glassformer.pipeline import Translator


def bleu(said: Sequence[str], references: Sequence[str]) -> float:
    """Cased, detokenised BLEU with sacreBLEU's own tokenisation (13a)."""
    return float(sacrebleu.corpus_bleu(list(said), [list(references)]).score)


def bleu_of(translator: Translator, rows: Sequence[tuple[str, ...]]) -> float:
    """BLEU of what `translator` says to the first column of `rows` against the second."""
    sources, references = zip(*rows, strict=True)
    return bleu(translator.translate(sources), references)
