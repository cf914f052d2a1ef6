"""Failure analysis of a translator: the worst sentences with labels, and where failures occur."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from glassformer.evaluate.card import Sheet, Table, facts
from glassformer.evaluate.examples import check_lengths
from glassformer.evaluate.labels import (
    ALL_LABELS,
    WORD,
    Evidence,
    problems,
    word_counts,
    words,
)
from glassformer.pipeline import Translator

SOURCE_LENGTHS = (5, 10, 15, 20, 30, 50)  # the last number of words of each bucket
FREQUENCIES = (0, 5, 20, 100, 1_000)  # the last count of each bucket
NEGLECTED = 0.2  # share of the average attention of a source word, below which it is reported


# Cross-attention


@dataclass(frozen=True)
class AttentionUse:
    """Cross-attention of the last layer, mean over heads, along the output."""

    end_share: float  # share of attention on </s>
    entropy: float  # mean over steps, in bits
    relative_entropy: float  # entropy ÷ its maximum: 0 one subword, 1 uniform
    neglected_words: list[str]  # source words that are probably not translated


def attention_use(translator: Translator, source: str, output: str) -> AttentionUse | None:
    """Read the cross-attention of a translator that was loaded with `engine="torch"`.

    Return None where there is no word to attend to, or where a side is too long for the model.
    """
    import torch

    from glassformer.model.attention import record_attention

    inputs = translator.inputs(source, output)
    n_source, n_target = (side.size(1) - 1 for side in inputs)  # subwords without </s> or <s>
    max_target = translator.max_target_length
    too_long = n_source > translator.max_length or (
        max_target is not None and n_target > max_target
    )
    if not words(source) or too_long:
        return None
    with torch.inference_mode(), record_attention(translator.model) as maps:
        translator.model(*inputs)
    cross = [w for name, w in maps.items() if name.endswith("cross_attention")]
    attention = cross[-1][0][0].mean(0).cpu().numpy()  # (T, S): a row a step, the last column </s>
    bits = -float((attention * np.log2(attention.clip(1e-12))).sum(-1).mean())
    maximum = float(np.log2(attention.shape[1]))
    spans = translator.source_tokenizer.spans(source)
    end_share = float(attention[:, -1].mean())
    return AttentionUse(end_share, bits, bits / maximum, neglected_words(attention, source, spans))


def neglected_words(
    attention: NDArray[np.float32], source: str, spans: Sequence[tuple[int, int]]
) -> list[str]:
    """Return the words that get less than `NEGLECTED` of a word's average attention over all steps.

    The average is over words, so that attention on </s> does not make every word look neglected.
    """
    per_subword = attention.sum(0).tolist()
    found = list(WORD.finditer(source))
    sums = [  # a subword belongs to the word that holds its last character
        sum(
            a for a, (_, end) in zip(per_subword, spans, strict=False) if m.start() < end <= m.end()
        )
        for m in found
    ]
    average = sum(sums) / max(1, len(sums))
    return [m[0] for m, total in zip(found, sums, strict=True) if total < NEGLECTED * average]


# Buckets


@dataclass(frozen=True)
class LengthBucket:
    words: str  # of the source
    sentences: int
    bleu: float
    chrf: float
    length_ratio: float


@dataclass(frozen=True)
class RareBucket:
    """Words by frequency; recall and precision are None where the denominator is 0."""

    count: str
    in_references: int
    in_output: int
    right: int

    @property
    def recall(self) -> float | None:
        return self.right / self.in_references if self.in_references else None

    @property
    def precision(self) -> float | None:
        return self.right / self.in_output if self.in_output else None


def by_length(
    sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]
) -> list[LengthBucket]:
    """Return the scores of sentences by source length, without empty buckets."""
    members: dict[str, list[int]] = {name: [] for name in _names(SOURCE_LENGTHS)}
    for i, source in enumerate(sources):
        members[_bucket(len(words(source)), SOURCE_LENGTHS)].append(i)
    buckets = []
    for name, rows in members.items():
        if rows:
            outputs, true = [hypotheses[i] for i in rows], [references[i] for i in rows]
            bleu = BLEU().corpus_score(outputs, [true])
            chrf = CHRF().corpus_score(outputs, [true]).score
            ratio = bleu.sys_len / max(1, bleu.ref_len)
            buckets.append(LengthBucket(name, len(rows), bleu.score, chrf, ratio))
    return buckets


def by_rarity(
    references: Sequence[str], hypotheses: Sequence[str], counts: Mapping[str, int]
) -> list[RareBucket]:
    """Return recall and precision of words by their frequency in `counts`."""
    wanted, output, right = Counter[str](), Counter[str](), Counter[str]()
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        true, ours = Counter(words(reference)), Counter(words(hypothesis))
        for total, found in ((wanted, true), (output, ours), (right, true & ours)):
            for word, count in found.items():
                total[_bucket(counts.get(word, 0), FREQUENCIES)] += count
    used = [name for name in _names(FREQUENCIES) if wanted[name] or output[name]]
    return [RareBucket(name, wanted[name], output[name], right[name]) for name in used]


def _names(ends: Sequence[int]) -> list[str]:
    starts = [0, *(end + 1 for end in ends[:-1])]
    ranges = [str(b) if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
    return [*ranges, f"over {ends[-1]:,}"]


def _bucket(value: int, ends: Sequence[int]) -> str:
    return _names(ends)[sum(value > end for end in ends)]


# Report


@dataclass(frozen=True)
class Failure:
    sentence: int  # from 1, as lines of a file are counted
    source: str
    reference: str
    output: str
    chrf: float
    bleu: float
    problems: dict[str, Evidence]
    attention: AttentionUse | None


@dataclass(frozen=True)
class FailureReport:
    sentences: int
    shares: dict[str, float]  # of sentences with each label, and with "none"
    lengths: list[LengthBucket]
    rarity: list[RareBucket]
    counts_from: str
    worst: list[Failure]
    attention: dict[str, dict[str, float]]  # mean of the worst, and of as many of the best

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        for row, bucket in zip(content["rarity"], self.rarity, strict=True):
            row |= {"recall": bucket.recall, "precision": bucket.precision}
        return content

    def tables(self) -> list[Table]:
        """Return the tables that have rows."""
        shares = [[name, f"{share:.1%}"] for name, share in self.shares.items()]
        lengths = [
            [b.words, f"{b.sentences:,}", f"{b.bleu:.2f}", f"{b.chrf:.2f}", f"{b.length_ratio:.3f}"]
            for b in self.lengths
        ]
        rarity = [
            [b.count, f"{b.in_references:,}", _percent(b.recall), _percent(b.precision)]
            for b in self.rarity
        ]
        attention = [
            [
                name, f"{use['end_share']:.1%}", f"{use['relative_entropy']:.2f}",
                f"{use['neglected_words']:.1f}",
            ]
            for name, use in self.attention.items()
        ]  # fmt: skip
        by_frequency = f"By frequency of a word in {self.counts_from}"
        tables = [
            Table("Failures", ["failure", "sentences"], shares),
            Table("By length of the source",
                  ["words", "sentences", "BLEU", "chrF", "length ratio"], lengths),
            Table(by_frequency, ["count", "words of references", "recall", "precision"], rarity),
            Table("Cross-attention (last layer)",
                  ["sentences", "on </s>", "relative entropy", "neglected words"], attention),
        ]  # fmt: skip
        return [table for table in tables if table.rows]

    def sheet(self) -> Sheet:
        tables = [*self.tables(), *map(_failure_table, self.worst)]
        return Sheet(f"Failures in {self.sentences:,} sentences", tables)


def analyse(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[str],
    worst: int = 20,
    training_counts: Mapping[str, int] | None = None,
    *,
    attention: bool = True,
) -> FailureReport:
    """Label every sentence, and report the `worst` that differ from their reference.

    With `attention`, the translator must have been loaded with `engine="torch"`.
    `training_counts` are `word_counts` of the target side of the training text. Without them, words
    are counted in the references, and the report says so.
    """
    check_lengths(sources=sources, references=references, translations=hypotheses)
    counts = word_counts(references) if training_counts is None else training_counts
    rows = list(zip(sources, references, hypotheses, strict=True))
    tokenizer, known = translator.source_tokenizer, counts.keys()
    found = [problems(*row, tokenizer, known) for row in rows]
    scores = [_scores(output, reference) for _, reference, output in rows]
    order = sorted(range(len(rows)), key=lambda i: (scores[i], i))
    bad = [i for i in order if rows[i][1] != rows[i][2]][:worst]
    good = [i for i in reversed(order) if i not in bad][:worst]
    uses = {
        i: attention_use(translator, rows[i][0], rows[i][2]) if attention else None
        for i in [*bad, *good]
    }
    groups = {"the worst": [uses[i] for i in bad], "the best": [uses[i] for i in good]}
    return FailureReport(
        sentences=len(rows),
        shares=_shares(found),
        lengths=by_length(sources, references, hypotheses),
        rarity=by_rarity(references, hypotheses, counts),
        counts_from="these references" if training_counts is None else "the training text",
        worst=[Failure(i + 1, *rows[i], *scores[i], found[i], uses[i]) for i in bad],
        attention={name: mean for name, group in groups.items() if (mean := _mean(group))},
    )


def _scores(output: str, reference: str) -> tuple[float, float]:
    bleu = BLEU(effective_order=True)
    return (
        CHRF().sentence_score(output, [reference]).score,
        bleu.sentence_score(output, [reference]).score,
    )


def _shares(found: Sequence[Mapping[str, Evidence]]) -> dict[str, float]:
    counts = Counter(label for one in found for label in one)
    none = sum(not one for one in found)
    return {
        k: v / len(found) for k, v in {**{k: counts[k] for k in ALL_LABELS}, "none": none}.items()
    }


def _mean(uses: Sequence[AttentionUse | None]) -> dict[str, float]:
    known = [use for use in uses if use is not None]
    if not known:
        return {}
    return {
        "end_share": fmean(use.end_share for use in known),
        "entropy": fmean(use.entropy for use in known),
        "relative_entropy": fmean(use.relative_entropy for use in known),
        "neglected_words": fmean(len(use.neglected_words) for use in known),
    }


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _failure_table(failure: Failure) -> Table:
    labels = (f"{name}: {', '.join(evidence)}" for name, evidence in failure.problems.items())
    rows = {
        "source": failure.source,
        "reference": failure.reference,
        "output": failure.output,
        "labels": "; ".join(labels) or "none",
    }
    if (use := failure.attention) is not None:
        neglected = ", ".join(use.neglected_words) or "no word"
        rows["attention"] = (
            f"{use.end_share:.0%} on </s>, relative entropy {use.relative_entropy:.2f}, "
            f"neglects {neglected}"
        )
    title = f"sentence {failure.sentence}: chrF {failure.chrf:.1f}, BLEU {failure.bleu:.1f}"
    return facts(title, rows)
