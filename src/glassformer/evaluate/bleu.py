"""BLEU and chrF of translations, by sacreBLEU, with what one needs to compare them."""

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

References = Sequence[str] | Sequence[Sequence[str]]  # one of each sentence, or several
RESAMPLES = 1_000  # of the bootstrap that an interval comes from


@dataclass(frozen=True)
class Score:
    """A score with its 95% interval, by sacreBLEU's bootstrap, and the signature to quote."""

    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True)
class Bleu(Score):
    """Lengths are in the tokens that BLEU counts."""

    brevity_penalty: float
    length_ratio: float
    length: int
    reference_length: int


def columns(references: References) -> list[list[str]]:
    """Return the references by column, as sacreBLEU takes them; None where a sentence has fewer."""
    rows = [(one,) if isinstance(one, str) else tuple(one) for one in references]
    found = [list(column) for column in zip_longest(*rows)]
    return cast(list[list[str]], found)  # sacreBLEU reads None, but its types do not say so


def bleu(said: Sequence[str], references: References) -> float:
    """Cased, detokenised BLEU with sacreBLEU's own tokenisation (13a)."""
    return float(sacrebleu.corpus_bleu(list(said), columns(references)).score)


def bleu_of(translator: Translator, rows: Sequence[tuple[str, ...]]) -> float:
    """BLEU of what `translator` says, greedily, to the first column of `rows` by the second."""
    sources, references = zip(*rows, strict=True)
    return bleu(translator.translate(sources, beam_size=1, split=False, typeset=False), references)


def bleu_score(
    said: Sequence[str],
    references: References,
    tokenised: bool = False,
    resamples: int = RESAMPLES,
) -> Bleu:
    """BLEU as `bleu` has it or, of texts `tokenised` already, lower-cased on the tokens given."""
    # `force`: sacreBLEU warns of tokenised text, which is what is meant here
    metric = BLEU(lowercase=True, tokenize="none", force=True) if tokenised else BLEU()
    score = metric.corpus_score(list(said), columns(references), n_bootstrap=resamples)
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
    """sacreBLEU 2.6 cannot take the mean of scores of which some are 0 and some numpy's float32."""

    def _compute_score_from_stats(self, stats: list[int]) -> CHRFScore:
        score = super()._compute_score_from_stats(stats)
        score.score = float(score.score)
        return score


def chrf_score(said: Sequence[str], references: References, resamples: int = RESAMPLES) -> Score:
    """chrF; of several references the best counts for each sentence."""
    metric = _Chrf()
    score = metric.corpus_score(list(said), columns(references), n_bootstrap=resamples)
    return Score(score.score, *_interval(metric, score), str(metric.get_signature()))


def _interval(metric: Metric, score: SacreScore) -> tuple[float, float]:
    """sacreBLEU tells of its interval only in words; of a score of 0 it tells none."""
    words = score.format(width=6, signature=str(metric.get_signature()), is_json=True)
    told = json.loads(words)
    middle, half = told.get("confidence_mean", score.score), told.get("confidence_var", 0.0)
    return max(0.0, middle - half), min(100.0, middle + half)
