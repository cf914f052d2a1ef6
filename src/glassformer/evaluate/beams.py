"""Greedy against beams of several widths: what a wider search gains, and what it costs."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from glassformer import picture
from glassformer.errors import DataError, InputError
from glassformer.evaluate.card import markdown_table
from glassformer.pipeline import Translator

WIDTHS = (1, 2, 4, 5, 8, 16)
SIGNIFICANT = 0.05
SEED = 12345  # of the paired test: sacreBLEU's
COLUMNS = [
    "beam",
    "BLEU",
    "p (BLEU)",
    "chrF",
    "p (chrF)",
    "seconds",
    "sentences/s",
    "÷ greedy's",
    "memory MB",
    "length ratio",
    "changed",
]
Said = dict[int, list[str]]


@dataclass(frozen=True)
class BeamResult:
    """One width. What is compared is compared with greedy, whose own p-values are None."""

    beam: int
    bleu: float
    bleu_p: float | None
    chrf: float
    chrf_p: float | None
    seconds: float
    sentences_per_second: float
    relative_speed: float
    peak_bytes: int | None  # how far the resident set rose; None where the system does not tell
    length_ratio: float  # tokens said per token of the references, as BLEU counts them
    changed: int  # sentences that are not those of greedy

    @property
    def row(self) -> list[str]:
        memory = "–" if self.peak_bytes is None else f"{self.peak_bytes / 1e6:,.0f}"
        return [
            "1 (greedy)" if self.beam == 1 else str(self.beam),
            f"{self.bleu:.2f}",
            _p(self.bleu_p),
            f"{self.chrf:.2f}",
            _p(self.chrf_p),
            f"{self.seconds:,.2f}",
            f"{self.sentences_per_second:,.1f}",
            f"{self.relative_speed:.2f}",
            memory,
            f"{self.length_ratio:.3f}",
            f"{self.changed:,}",
        ]


@dataclass(frozen=True)
class Change:
    """A sentence that these widths translate alike and greedy does not; scores are of it alone."""

    sentence: int  # from 1, as lines of a file are counted
    beams: tuple[int, ...]
    source: str
    reference: str
    greedy: str
    said: str
    greedy_chrf: float
    chrf: float
    greedy_bleu: float
    bleu: float

    @property
    def difference(self) -> float:
        """By chrF, which grades single sentences more finely than BLEU."""
        return self.chrf - self.greedy_chrf


@dataclass(frozen=True)
class BeamComparison:
    sentences: int
    results: list[BeamResult]
    gained: list[Change]
    lost: list[Change]
    signatures: dict[str, str]
    notes: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=lambda: list(COLUMNS))

    @property
    def rows(self) -> list[list[str]]:
        return [result.row for result in self.results]

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        del content["columns"]
        return content

    def to_markdown(self) -> str:
        parts = [
            "## Greedy against beam",
            markdown_table(self.columns, self.rows, "r" * len(self.columns)),
            *self.notes,
            *(f"`{signature}`" for signature in self.signatures.values()),
        ]
        for title, changes in (("gained", self.gained), ("lost", self.lost)):
            if changes:
                parts += [f"### Sentences that {title} most", *map(_change_markdown, changes)]
        return "\n\n".join(parts) + "\n"


def compare_beams(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    beams: Sequence[int] = WIDTHS,
    *,
    rounds: int = 1,
    trials: int = 10_000,
    examples: int = 5,
    tick: Callable[[], None] = lambda: None,
    **options: Any,
) -> BeamComparison:
    """Translate with every width and compare with greedy, which is always among them.

    Widths take turns in each of `rounds`, and the best round of each counts; `tick` is called after
    each turn. `trials` are those of the paired test; `options` go to `translate`.
    """
    check_lengths(sources=sources, references=references)
    widths = _widths(beams)
    decoded = _decode(translator, list(sources), widths, rounds, tick, options)
    said = {width: texts for width, (texts, _, _) in decoded.items()}
    p_values, signatures = paired_test(said, references, trials)
    results = []
    for width, (texts, seconds, peak) in decoded.items():
        bleu = BLEU().corpus_score(texts, [references])
        results.append(
            BeamResult(
                beam=width,
                bleu=bleu.score,
                bleu_p=p_values["BLEU"].get(width),
                chrf=CHRF().corpus_score(texts, [references]).score,
                chrf_p=p_values["chrF2"].get(width),
                seconds=seconds,
                sentences_per_second=len(texts) / seconds,
                relative_speed=decoded[1][1] / seconds,
                peak_bytes=peak,
                length_ratio=bleu.sys_len / max(1, bleu.ref_len),
                changed=_changed(said[1], texts),
            )
        )
    gained, lost = most_changed(sources, references, said, examples)
    notes = _notes(rounds, len(widths) - 1)
    return BeamComparison(len(sources), results, gained, lost, signatures, notes)


def paired_test(
    said: Said, references: Sequence[str], trials: int
) -> tuple[dict[str, dict[int, float]], dict[str, str]]:
    """p of each width against greedy by BLEU and chrF, and the signatures: two-sided approximate
    randomisation on sacreBLEU's statistics of sentences.

    sacreBLEU's own test counts the trials that are beyond what was measured and not those that
    equal it. Where few sentences differ, most of the extreme ones do: its p is far too small.
    """
    p_values: dict[str, dict[int, float]] = {}
    signatures: dict[str, str] = {}
    metrics: list[Metric] = [BLEU(references=[references]), CHRF(references=[references])]
    for metric in metrics:
        rows = {w: np.array(metric._extract_corpus_statistics(said[w], None)) for w in said}
        name = metric._compute_score_from_stats(rows[1].sum(0).tolist()).name
        p_values[name] = {w: _chance(metric, rows[1], rows[w], trials) for w in said if w != 1}
        signature = metric.get_signature()
        signature.update("seed", SEED)
        signature.update("ar", trials)
        signatures[name] = f"{name}|{signature}"
    return p_values, signatures


def _chance(metric: Metric, one: NDArray[Any], other: NDArray[Any], trials: int) -> float:
    """How often two systems are at least as far apart when their sentences are swapped at random.

    Rows of `one` and `other` are the statistics of a sentence; of a corpus these add up.
    """
    total, score = one.sum(0) + other.sum(0), metric._compute_score_from_stats

    def apart(some: NDArray[Any]) -> float:
        first, second = some.tolist(), (total - some).tolist()
        return float(abs(score(first).score - score(second).score))

    differ = (one != other).any(1)
    swap = np.random.default_rng(SEED).integers(2, size=(trials, differ.sum()))
    mixed = one.sum(0) + swap @ (other - one)[differ]  # (trials, statistics)
    measured = apart(one.sum(0)) - 1e-9
    count = sum(apart(some) >= measured for some in mixed)
    return (count + 1) / (trials + 1)


def most_changed(
    sources: Sequence[str], references: Sequence[str], said: Said, examples: int
) -> tuple[list[Change], list[Change]]:
    """The changes against greedy that gained and that lost most, one of a sentence each."""
    beams: dict[tuple[int, str], list[int]] = {}
    for width, texts in said.items():
        for i, (before, after) in enumerate(zip(said[1], texts, strict=True)):
            if after != before:
                beams.setdefault((i, after), []).append(width)
    bleu, chrf = BLEU(effective_order=True), CHRF()
    changes = [
        Change(
            sentence=i + 1,
            beams=tuple(widths),
            source=sources[i],
            reference=references[i],
            greedy=said[1][i],
            said=text,
            greedy_chrf=chrf.sentence_score(said[1][i], [references[i]]).score,
            chrf=chrf.sentence_score(text, [references[i]]).score,
            greedy_bleu=bleu.sentence_score(said[1][i], [references[i]]).score,
            bleu=bleu.sentence_score(text, [references[i]]).score,
        )
        for (i, text), widths in beams.items()
    ]
    changes.sort(key=lambda change: (-abs(change.difference), change.sentence))
    gained: dict[int, Change] = {}
    lost: dict[int, Change] = {}
    for change in changes:  # the first of a sentence is its largest
        if change.difference:
            (gained if change.difference > 0 else lost).setdefault(change.sentence, change)
    return list(gained.values())[:examples], list(lost.values())[:examples]


def beam_figure(comparison: BeamComparison, path: str | Path) -> None:
    """BLEU and time against width on one picture; the suffix says SVG or PNG."""
    path = Path(path)
    picture.check(path)
    results = comparison.results
    widths = [result.beam for result in results]
    figure = picture.new_figure(6.4, 4)
    left = figure.add_subplot()
    right = left.twinx()
    left.plot(widths, [r.bleu for r in results], color="#1f5f8b")
    for result in results:
        sure = result.bleu_p is not None and result.bleu_p < SIGNIFICANT
        fill = "#1f5f8b" if sure else "white"
        left.plot(result.beam, result.bleu, "o", mec="#1f5f8b", mfc=fill, ms=7)
    right.plot(widths, [1 / r.relative_speed for r in results], "s--", color="#d1495b", ms=4)
    left.set_xscale("log", base=2)
    left.set_xticks(widths, [str(width) for width in widths])
    left.minorticks_off()
    left.set_xlabel("beam width (1 is greedy)")
    left.set_ylabel(f"BLEU (filled: p < {SIGNIFICANT} against greedy)", color="#1f5f8b")
    right.set_ylabel("time, in times of greedy", color="#d1495b")
    right.set_ylim(bottom=0)
    left.set_title(f"Greedy against beam, {comparison.sentences:,} sentences", fontsize=10)
    picture.save(figure, path)


def check_lengths(**texts: Sequence[object]) -> None:
    """Lists that belong together have one length, and it is not zero."""
    lengths = {name: len(lines) for name, lines in texts.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        counted = ", ".join(f"{count:,} {name}" for name, count in lengths.items())
        raise DataError(
            f"There are {counted}.",
            "Line n of each belongs to line n of the others, and there must be a line.",
            "Give files with as many lines as each other.",
        )


def _widths(beams: Sequence[int]) -> list[int]:
    if any(width < 1 for width in beams):
        raise InputError(
            f"{min(beams)} is no width of a beam.",
            "A beam keeps so many hypotheses at every step.",
            "Give widths of 1 (greedy) or more.",
        )
    return sorted({1, *beams})


def _decode(
    translator: Translator,
    sources: list[str],
    widths: Sequence[int],
    rounds: int,
    tick: Callable[[], None],
    options: dict[str, Any],
) -> dict[int, tuple[list[str], float, int | None]]:
    """What each width says, the seconds of its best round, and how far memory rose in the first.

    Memory that was freed is not all given back to the system, and what is left of one width counts
    for the next. Widths go up, so that this flatters none: what is told is at most too much.
    """
    options = {"split": False, "typeset": False, **options}
    translator.translate(sources[:8], beam_size=1, **options)  # what is made once is made now
    before = _resident("VmRSS")
    decoded: dict[int, tuple[list[str], float, int | None]] = {}
    for _ in range(max(1, rounds)):
        for width in widths:
            _forget_peak()
            start = time.perf_counter()
            texts = translator.translate(sources, beam_size=width, **options)
            seconds = time.perf_counter() - start
            if width in decoded:
                texts, best, peak = decoded[width]
                decoded[width] = texts, min(best, seconds), peak
            else:
                after = _resident("VmHWM")
                rise = None if after is None or before is None else max(0, after - before)
                decoded[width] = texts, seconds, rise
            tick()
    return decoded


def _resident(what: str) -> int | None:
    """Bytes of this process in memory now (VmRSS) or at most (VmHWM), where Linux tells them."""
    status = Path("/proc/self/status")
    found = re.search(rf"{what}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else None


def _forget_peak() -> None:
    """Let VmHWM start again from what is in memory now.

    The peak that the system keeps of the process (`machine.peak_memory`) starts again with it.
    """
    switch = Path("/proc/self/clear_refs")
    if switch.exists():
        switch.write_text("5")


def _changed(greedy: Sequence[str], texts: Sequence[str]) -> int:
    return sum(a != b for a, b in zip(greedy, texts, strict=True))


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _notes(rounds: int, comparisons: int) -> list[str]:
    turns = "one round" if rounds <= 1 else f"the best of {rounds} rounds in turns"
    return [
        "p: two-sided approximate randomisation against greedy, not corrected for "
        f"{comparisons} comparisons.",
        f"seconds: {turns}, subwords included.",
        "memory: how far the resident set of the process rose above where it was before decoding; "
        "at most, since what one width leaves behind counts for the next.",
    ]


def _change_markdown(change: Change) -> str:
    widths = ", ".join(map(str, change.beams))
    lines = [
        ["", "", "chrF", "BLEU"],
        ["source", change.source, "", ""],
        ["reference", change.reference, "", ""],
        ["greedy", change.greedy, f"{change.greedy_chrf:.1f}", f"{change.greedy_bleu:.1f}"],
        [f"beam {widths}", change.said, f"{change.chrf:.1f}", f"{change.bleu:.1f}"],
    ]
    heading = f"Sentence {change.sentence}: chrF {change.difference:+.1f}"
    return f"{heading}\n\n{markdown_table(lines[0], lines[1:], 'llrr')}"
