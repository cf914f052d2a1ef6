"""BLEU and chrF by sacreBLEU, with 95% intervals and signatures."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import cast

import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as SacreScore
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF, CHRFScore

from glassformer.pipeline import Translator

References = Sequence[str] | Sequence[Sequence[str]]  # one per sentence, or several
RESAMPLES = 1_000  # bootstrap samples of an interval: sacreBLEU's default


@dataclass(frozen=True)
class Score:
    """A score with its 95% interval, by sacreBLEU's bootstrap, and the signature to quote."""

    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True)
class Bleu(Score):
    """BLEU with its lengths, in the tokens that BLEU counts."""

    brevity_penalty: float
    length_ratio: float
    length: int
    reference_length: int


def columns(references: References) -> list[list[str]]:
    """Return the references by column, as sacreBLEU takes them; None where a sentence has fewer."""
    rows = [(one,) if isinstance(one, str) else tuple(one) for one in references]
    found = [list(column) for column in zip_longest(*rows)]
    return cast(list[list[str]], found)  # sacreBLEU accepts None, which its types leave out


def bleu(outputs: Sequence[str], references: References) -> float:
    """Return cased, detokenised BLEU with sacreBLEU's tokenisation (13a)."""
    return float(sacrebleu.corpus_bleu(list(outputs), columns(references)).score)


def bleu_of(translator: Translator, rows: Sequence[tuple[str, ...]]) -> float:
    """Return BLEU of greedy translations; `rows` are (source, reference)."""
    sources, references = zip(*rows, strict=True)
    return bleu(translator.translate(sources, beam_size=1, split=False, typeset=False), references)


def bleu_score(
    outputs: Sequence[str],
    references: References,
    tokenised: bool = False,
    resamples: int = RESAMPLES,
) -> Bleu:
    """Return the score of `bleu`; for texts already `tokenised`, lower-cased on their tokens."""
    # `force`: sacreBLEU would warn that the text is tokenised
    metric = BLEU(lowercase=True, tokenize="none", force=True) if tokenised else BLEU()
    score = metric.corpus_score(list(outputs), columns(references), n_bootstrap=resamples)
    assert isinstance(score, BLEUScore)
    return Bleu(
        score.score,
        *_interval(metric, score),
        str(metric.get_signature()),
        score.bp,
        score.ratio,
        score.sys_len,
        score.ref_len,
    )


class _Chrf(CHRF):
    """chrF whose scores are floats: sacreBLEU 2.6 cannot average 0 with numpy's float32."""

    def _compute_score_from_stats(self, stats: list[int]) -> CHRFScore:
        score = super()._compute_score_from_stats(stats)
        score.score = float(score.score)
        return score


def chrf_score(outputs: Sequence[str], references: References, resamples: int = RESAMPLES) -> Score:
    """Return chrF; with several references the best of each sentence counts."""
    metric = _Chrf()
    score = metric.corpus_score(list(outputs), columns(references), n_bootstrap=resamples)
    return Score(score.score, *_interval(metric, score), str(metric.get_signature()))


def _interval(metric: Metric, score: SacreScore) -> tuple[float, float]:
    """Return the interval from sacreBLEU's JSON, its only source; a score of 0 has none there."""
    text = score.format(width=6, signature=str(metric.get_signature()), is_json=True)
    content = json.loads(text)
    middle = content.get("confidence_mean", score.score)
    half = content.get("confidence_var", 0.0)
    return max(0.0, middle - half), min(100.0, middle + half)
