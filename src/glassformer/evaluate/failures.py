"""What a translator gets wrong: its worst sentences with reasons, and where failures gather."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from glassformer.evaluate.beams import check_lengths
from glassformer.evaluate.card import markdown_table
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
HARDLY = 0.2  # of the attention that a source word gets on average


# Where attention went.


@dataclass(frozen=True)
class AttentionUse:
    """Cross-attention of the last layer, mean over heads, while the output is said."""

    end_share: float  # of attention on </s>, which holds no word
    entropy: float  # of a step, in bits
    evenness: float  # entropy by its most: 0 looks at one subword, 1 at all alike
    hardly_attended: list[str]  # source words that are likely dropped


def attention_use(translator: Translator, source: str, said: str) -> AttentionUse | None:
    """Read the cross-attention of a translator that was loaded with `engine="torch"`.

    Return None where there is no word to attend to, or where a side is too long for the model.
    """
    import torch

    from glassformer.model.attention import record_attention

    inputs = translator.inputs(source, said)
    read, target = (side.size(1) - 1 for side in inputs)  # subwords, without the mark
    room = translator.target_room
    if not words(source) or read > translator.max_length or (room is not None and target > room):
        return None
    with torch.inference_mode(), record_attention(translator.model) as maps:
        translator.model(*inputs)
    cross = [w for name, w in maps.items() if name.endswith("cross_attention")]
    attention = cross[-1][0][0].mean(0).numpy()  # (T, S): a row is a step, the last column </s>
    bits = -float((attention * np.log2(attention.clip(1e-12))).sum(-1).mean())
    most = float(np.log2(attention.shape[1]))
    spans = translator.source_tokenizer.spans(source)
    end_share = float(attention[:, -1].mean())
    return AttentionUse(end_share, bits, bits / most, hardly_attended(attention, source, spans))


def hardly_attended(
    attention: NDArray[np.float32], source: str, spans: Sequence[tuple[int, int]]
) -> list[str]:
    """Words that got less than `HARDLY` of what a word got on average, in all steps together.

    By the average, so that attention parked on </s> does not make every word look dropped.
    """
    got = attention.sum(0).tolist()
    found = list(WORD.finditer(source))
    sums = [  # a subword belongs to the word that holds its last character
        sum(a for a, (_, end) in zip(got, spans, strict=False) if m.start() < end <= m.end())
        for m in found
    ]
    average = sum(sums) / max(1, len(sums))
    return [m[0] for m, total in zip(found, sums, strict=True) if total < HARDLY * average]


# Where failures gather.


@dataclass(frozen=True)
class LengthBucket:
    words: str  # of the source
    sentences: int
    bleu: float
    chrf: float
    length_ratio: float


@dataclass(frozen=True)
class RareBucket:
    """Words by how often they are counted; None where there is nothing to divide by."""

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
    """BLEU of the sentences of like length; buckets without sentences are left out."""
    members: dict[str, list[int]] = {name: [] for name in _names(SOURCE_LENGTHS)}
    for i, source in enumerate(sources):
        members[_bucket(len(words(source)), SOURCE_LENGTHS)].append(i)
    buckets = []
    for name, rows in members.items():
        if rows:
            said, true = [hypotheses[i] for i in rows], [references[i] for i in rows]
            bleu = BLEU().corpus_score(said, [true])
            chrf = CHRF().corpus_score(said, [true]).score
            ratio = bleu.sys_len / max(1, bleu.ref_len)
            buckets.append(LengthBucket(name, len(rows), bleu.score, chrf, ratio))
    return buckets


def by_rarity(
    references: Sequence[str], hypotheses: Sequence[str], counts: Mapping[str, int]
) -> list[RareBucket]:
    """How many of the words are said where they belong, by how often `counts` has seen them."""
    wanted, said, right = Counter[str](), Counter[str](), Counter[str]()
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        true, ours = Counter(words(reference)), Counter(words(hypothesis))
        for total, found in ((wanted, true), (said, ours), (right, true & ours)):
            for word, count in found.items():
                total[_bucket(counts.get(word, 0), FREQUENCIES)] += count
    used = [name for name in _names(FREQUENCIES) if wanted[name] or said[name]]
    return [RareBucket(name, wanted[name], said[name], right[name]) for name in used]


def _names(ends: Sequence[int]) -> list[str]:
    starts = [0, *(end + 1 for end in ends[:-1])]
    ranges = [str(b) if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
    return [*ranges, f"over {ends[-1]:,}"]


def _bucket(value: int, ends: Sequence[int]) -> str:
    return _names(ends)[sum(value > end for end in ends)]


# The report.


@dataclass(frozen=True)
class Failure:
    sentence: int  # from 1, as lines of a file are counted
    source: str
    reference: str
    said: str
    chrf: float
    bleu: float
    problems: dict[str, Evidence]
    attention: AttentionUse | None


@dataclass(frozen=True)
class FailureReport:
    sentences: int
    shares: dict[str, float]  # of all sentences, for each label, and for none of them
    lengths: list[LengthBucket]
    rarity: list[RareBucket]
    counts_from: str
    worst: list[Failure]
    attention: dict[str, dict[str, float]]  # of the worst and of as many of the best, mean

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        for row, bucket in zip(content["rarity"], self.rarity, strict=True):
            row |= {"recall": bucket.recall, "precision": bucket.precision}
        return content

    def tables(self) -> dict[str, tuple[list[str], list[list[str]]]]:
        """Title to columns and rows, as text."""
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
            [name, f"{use['end_share']:.1%}", f"{use['evenness']:.2f}", f"{use['hardly']:.1f}"]
            for name, use in self.attention.items()
        ]
        return {
            "What went wrong": (["failure", "sentences"], shares),
            "By length of the source": (
                ["words", "sentences", "BLEU", "chrF", "length ratio"], lengths,
            ),
            f"By how often a word is in {self.counts_from}": (
                ["count", "words of references", "recall", "precision"], rarity,
            ),
            "Where attention went (last layer)": (
                ["sentences", "on </s>", "evenness", "words hardly attended"], attention,
            ),
        }  # fmt: skip

    def to_markdown(self) -> str:
        parts = [f"## Failures in {self.sentences:,} sentences"]
        for title, (columns, rows) in self.tables().items():
            if rows:
                parts += [
                    f"### {title}",
                    markdown_table(columns, rows, "l" + "r" * (len(columns) - 1)),
                ]
        if self.worst:
            parts += [f"### The worst {len(self.worst)}, by chrF", *map(_markdown, self.worst)]
        return "\n\n".join(parts) + "\n"


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
    """Label every sentence; look closely at the `worst` that are not their reference.

    With `attention` the translator must be one that was loaded with `engine="torch"`.
    `training_counts` are `word_counts` of the target side of the training text. Without them words
    are counted in the references themselves, which says less about rare ones; the report says so.
    """
    check_lengths(sources=sources, references=references, translations=hypotheses)
    counts = word_counts(references) if training_counts is None else training_counts
    rows = list(zip(sources, references, hypotheses, strict=True))
    tokenizer, known = translator.source_tokenizer, counts.keys()
    found = [problems(*row, tokenizer, known) for row in rows]
    scores = [_scores(said, reference) for _, reference, said in rows]
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


def _scores(said: str, reference: str) -> tuple[float, float]:
    bleu = BLEU(effective_order=True)
    return (
        CHRF().sentence_score(said, [reference]).score,
        bleu.sentence_score(said, [reference]).score,
    )


def _shares(found: Sequence[Mapping[str, Evidence]]) -> dict[str, float]:
    counts = Counter(label for one in found for label in one)
    none = sum(not one for one in found)
    return {
        k: v / len(found) for k, v in {**{k: counts[k] for k in ALL_LABELS}, "none": none}.items()
    }


def _mean(uses: Sequence[AttentionUse | None]) -> dict[str, float]:
    there = [use for use in uses if use is not None]
    if not there:
        return {}
    return {
        "end_share": fmean(use.end_share for use in there),
        "entropy": fmean(use.entropy for use in there),
        "evenness": fmean(use.evenness for use in there),
        "hardly": fmean(len(use.hardly_attended) for use in there),
    }


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _markdown(failure: Failure) -> str:
    why = [f"{name}: {', '.join(evidence)}" for name, evidence in failure.problems.items()]
    rows = [
        ["reference", failure.reference],
        ["said", failure.said],
        ["went wrong", "; ".join(why) or "none of the labels"],
    ]
    if (use := failure.attention) is not None:
        dropped = ", ".join(use.hardly_attended) or "no word"
        text = f"{use.end_share:.0%} on </s>, evenness {use.evenness:.2f}, hardly on {dropped}"
        rows.append(["attention", text])
    heading = f"Sentence {failure.sentence}: chrF {failure.chrf:.1f}, BLEU {failure.bleu:.1f}"
    return f"{heading}\n\n{markdown_table(['source', failure.source], rows, 'll')}"
