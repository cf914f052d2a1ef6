"""Significance of a difference in BLEU or chrF: paired approximate randomisation."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

SEED = 12345  # sacreBLEU's own default
ROUNDING = 1e-9  # differences of scores this close count as equal

System = TypeVar("System", bound=Hashable)


def paired_test(
    outputs: Mapping[System, Sequence[str]],
    references: Sequence[str],
    trials: int,
    baseline: System,
) -> tuple[dict[str, dict[System, float]], dict[str, str]]:
    """Return p of each system against the baseline by metric, and the signatures of the metrics.

    The test is two-sided. sacreBLEU's own test counts the trials beyond the measured difference and
    not those equal to it. Where few sentences differ, most extreme trials are equal to it, and its
    p is far too small.
    """
    p_values: dict[str, dict[System, float]] = {}
    signatures: dict[str, str] = {}
    metrics: list[Metric] = [BLEU(references=[references]), CHRF(references=[references])]
    for metric in metrics:
        rows = {
            name: np.array(metric._extract_corpus_statistics(texts, None))
            for name, texts in outputs.items()
        }
        base = rows.pop(baseline)
        metric_name = metric._compute_score_from_stats(base.sum(0).tolist()).name
        p_values[metric_name] = {
            name: _p_value(metric, base, other, trials) for name, other in rows.items()
        }
        signature = metric.get_signature()
        signature.update("seed", SEED)
        signature.update("ar", trials)
        signatures[metric_name] = f"{metric_name}|{signature}"
    return p_values, signatures


def _p_value(metric: Metric, one: NDArray[Any], other: NDArray[Any], trials: int) -> float:
    """Return the share of random swaps of sentences that differ by at least the measured amount.

    Rows of `one` and `other` are the statistics of a sentence. Those of a corpus are their sum.
    """
    total, score = one.sum(0) + other.sum(0), metric._compute_score_from_stats

    def difference(statistics: NDArray[Any]) -> float:
        first, second = statistics.tolist(), (total - statistics).tolist()
        return float(abs(score(first).score - score(second).score))

    differ = (one != other).any(1)
    swap = np.random.default_rng(SEED).integers(2, size=(trials, differ.sum()))
    mixed = one.sum(0) + swap @ (other - one)[differ]  # (trials, statistics)
    measured = difference(one.sum(0)) - ROUNDING
    count = sum(difference(statistics) >= measured for statistics in mixed)
    return (count + 1) / (trials + 1)
