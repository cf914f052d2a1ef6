"""Greedy search against beams of several widths: scores, significance, time and memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from glassformer.errors import InputError
from glassformer.evaluate.card import Sheet, Table
from glassformer.evaluate.examples import check_lengths
from glassformer.evaluate.significance import paired_test
from glassformer.machine import peak_memory, reset_peak_memory, resident_memory
from glassformer.measure import best_of_rounds
from glassformer.pipeline import Translator

WIDTHS = (1, 2, 4, 5, 8, 16)
WARM_UP = 8  # sentences translated before anything is measured
COLUMNS = [
    "beam", "BLEU", "p (BLEU)", "chrF", "p (chrF)", "seconds", "sentences/s", "÷ greedy's",
    "memory MB", "length ratio", "changed",
]  # fmt: skip
Outputs = dict[int, list[str]]  # translations by width


@dataclass(frozen=True)
class BeamResult:
    """The result of one width, compared with greedy; greedy itself has no p."""

    beam: int
    bleu: float
    bleu_p: float | None
    chrf: float
    chrf_p: float | None
    seconds: float
    sentences_per_second: float
    relative_speed: float
    peak_bytes: int | None  # rise of the resident set; None where the system does not report it
    length_ratio: float  # output tokens per reference token, as BLEU counts them
    changed: int  # sentences that differ from those of greedy

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
    """A sentence that these widths translate alike and greedy does not, with sentence scores."""

    sentence: int  # from 1, as lines of a file are counted
    beams: tuple[int, ...]
    source: str
    reference: str
    greedy: str
    output: str
    greedy_chrf: float
    chrf: float
    greedy_bleu: float
    bleu: float

    @property
    def difference(self) -> float:
        """The difference in chrF, which grades single sentences more finely than BLEU."""
        return self.chrf - self.greedy_chrf

    def table(self, name: str) -> Table:
        beams = f"beam {', '.join(map(str, self.beams))}"
        rows = [
            ["source", self.source, "", ""],
            ["reference", self.reference, "", ""],
            ["greedy", self.greedy, f"{self.greedy_chrf:.1f}", f"{self.greedy_bleu:.1f}"],
            [beams, self.output, f"{self.chrf:.1f}", f"{self.bleu:.1f}"],
        ]
        title = f"{name}: sentence {self.sentence}, chrF {self.difference:+.1f}"
        return Table(title, ["", "", "chrF", "BLEU"], rows, "llrr")


@dataclass(frozen=True)
class BeamComparison:
    sentences: int
    results: list[BeamResult]
    gained: list[Change]
    lost: list[Change]
    signatures: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def sheet(self) -> Sheet:
        beams = Table("beams", COLUMNS, [result.row for result in self.results], "r" * len(COLUMNS))
        changes = {"gained": self.gained, "lost": self.lost}
        tables = [change.table(name) for name, found in changes.items() for change in found]
        title = f"Greedy against beam, {self.sentences:,} sentences"
        return Sheet(title, [beams, *tables], self.signatures, self.notes)


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
    outputs, seconds, peaks = _translate(translator, list(sources), widths, rounds, tick, options)
    p_values, signatures = paired_test(outputs, references, trials, baseline=1)
    results = []
    for width, texts in outputs.items():
        bleu = BLEU().corpus_score(texts, [references])
        results.append(
            BeamResult(
                beam=width,
                bleu=bleu.score,
                bleu_p=p_values["BLEU"].get(width),
                chrf=CHRF().corpus_score(texts, [references]).score,
                chrf_p=p_values["chrF2"].get(width),
                seconds=seconds[width],
                sentences_per_second=len(texts) / seconds[width],
                relative_speed=seconds[1] / seconds[width],
                peak_bytes=peaks[width],
                length_ratio=bleu.sys_len / max(1, bleu.ref_len),
                changed=sum(a != b for a, b in zip(outputs[1], texts, strict=True)),
            )
        )
    gained, lost = most_changed(sources, references, outputs, examples)
    notes = _notes(rounds, len(widths) - 1)
    return BeamComparison(len(sources), results, gained, lost, signatures, notes)


def most_changed(
    sources: Sequence[str], references: Sequence[str], outputs: Outputs, examples: int
) -> tuple[list[Change], list[Change]]:
    """Return the largest gains and losses against greedy, at most one of each per sentence."""
    beams: dict[tuple[int, str], list[int]] = {}
    for width, texts in outputs.items():
        for i, (before, after) in enumerate(zip(outputs[1], texts, strict=True)):
            if after != before:
                beams.setdefault((i, after), []).append(width)
    bleu, chrf = BLEU(effective_order=True), CHRF()
    changes = [
        Change(
            sentence=i + 1,
            beams=tuple(widths),
            source=sources[i],
            reference=references[i],
            greedy=outputs[1][i],
            output=text,
            greedy_chrf=chrf.sentence_score(outputs[1][i], [references[i]]).score,
            chrf=chrf.sentence_score(text, [references[i]]).score,
            greedy_bleu=bleu.sentence_score(outputs[1][i], [references[i]]).score,
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


def _widths(beams: Sequence[int]) -> list[int]:
    if any(width < 1 for width in beams):
        raise InputError(
            f"A beam cannot have the width {min(beams)}.",
            "A beam keeps that many hypotheses at every step.",
            "Give widths of 1 (greedy) or more.",
        )
    return sorted({1, *beams})


def _translate(
    translator: Translator,
    sources: list[str],
    widths: Sequence[int],
    rounds: int,
    tick: Callable[[], None],
    options: dict[str, Any],
) -> tuple[Outputs, dict[int, float], dict[int, int | None]]:
    """Return the outputs of each width, its best seconds, and the rise of memory in its first turn.

    A process does not return all freed memory to the system, so one width counts for the next.
    Widths ascend: the reported rise may be too large, never too small.
    """
    options = {"split": False, "typeset": False, **options}
    translator.translate(sources[:WARM_UP], beam_size=1, **options)
    before = resident_memory()
    outputs: Outputs = {}
    peaks: dict[int, int | None] = {}

    def turn(width: int) -> float:
        reset_peak_memory()
        start = perf_counter()
        texts = translator.translate(sources, beam_size=width, **options)
        seconds = perf_counter() - start
        if width not in outputs:
            after = peak_memory()
            rise = None if before is None or after is None else max(0, after - before)
            outputs[width], peaks[width] = texts, rise
        return seconds

    turns = {width: partial(turn, width) for width in widths}
    seconds = best_of_rounds(turns, max(1, rounds), tick, warm_up=False)
    return outputs, seconds, peaks


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _notes(rounds: int, comparisons: int) -> list[str]:
    turns = "one round" if rounds <= 1 else f"the best of {rounds} rounds in turns"
    return [
        "p: two-sided approximate randomisation against greedy, not corrected for "
        f"{comparisons} comparisons.",
        f"seconds: {turns}, subwords included.",
        "memory: how far the resident set of the process rose above where it was before decoding; "
        "an upper bound, since memory that one width leaves behind counts for the next.",
    ]
