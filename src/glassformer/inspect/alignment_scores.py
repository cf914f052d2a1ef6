"""Alignment error rates of attention heads on the embedded grammar, beside baselines."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from glassformer.data.grammar import AlignedPair
from glassformer.evaluate.card import Circumstances, Sheet, Table, as_text, markdown, show
from glassformer.evaluate.evaluation import WIDTH
from glassformer.evaluate.html import sheet_html
from glassformer.inspect.alignment import Head
from glassformer.inspect.alignment_figures import PICTURES, draw
from glassformer.inspect.links import Tally, at_random, diagonal, one_true_link
from glassformer.pipeline import Translator


def baselines(pairs: list[AlignedPair]) -> dict[str, Tally]:
    """Return the tallies of simple alignments that an error rate is compared with."""
    gold, random = [pair.alignment for pair in pairs], np.random.default_rng(0)
    return {
        "the diagonal": Tally.of(map(diagonal, pairs), gold),
        "at random": Tally.of((at_random(pair, random) for pair in pairs), gold),
        "one true link a word": Tally.of(map(one_true_link, pairs), gold),
    }


@dataclass(frozen=True)
class Row:
    """One way to align, on the test part; heads with their error rate on the dev part."""

    name: str
    head: Head | None
    dev: float | None
    test: Tally

    def cells(self, best: Head) -> list[str]:
        low, high = self.test.interval()
        return [
            self.name,
            self.head.name + " *" * (self.head == best) if self.head else "–",
            "–" if self.dev is None else f"{self.dev:.1%}",
            f"{self.test.error_rate:.1%}",
            f"{low:.1%} – {high:.1%}",
            f"{self.test.precision:.1%}",
            f"{self.test.recall:.1%}",
        ]

    def to_json(self) -> dict[str, Any]:
        low, high = self.test.interval()
        return {
            "name": self.name,
            "head": self.head.name if self.head else None,
            "dev_error_rate": self.dev,
            "error_rate": self.test.error_rate,
            "low": low,
            "high": high,
            "precision": self.test.precision,
            "recall": self.test.recall,
        }


NOTES = [
    "* the best of all on dev. Nothing was chosen on test.",
    "Alignment error rate: 1 - 2 |found ∩ true| / (|found| + |true|), all true links sure. The "
    "interval is that of 95% of bootstrap samples of sentences.",
    "as output: attention at the step that produces the word; as input: one step later (+1). "
    "by share: linked to the source word of whose attention the word has the largest share.",
    "the diagonal: each word with the one at the same relative place. one true link a word: the "
    "least that one link for each target word can reach, as these all have, where words are often "
    "linked to several.",
]


@dataclass(frozen=True)
class AlignmentScores:
    """Error rates on the grammar; heads are chosen on one part and measured on another."""

    translator: Translator
    dev_pairs: list[AlignedPair]
    test_pairs: list[AlignedPair]
    dev: dict[Head, Tally]
    rows: list[Row]
    best: Head
    about: Circumstances
    named: Head | None = None  # that the user asked for

    @property
    def trained_on(self) -> str:
        """The name of the data that the translator was trained on."""
        return self.translator.settings.data.name

    @property
    def dev_sentences(self) -> int:
        return len(self.dev_pairs)

    @property
    def test_sentences(self) -> int:
        return len(self.test_pairs)

    def draw(self, folder: str | Path, limit: int = PICTURES) -> list[Path]:
        """Draw the first test sentences by the named or best head, beside the true links."""
        gold = [pair.alignment for pair in self.test_pairs]
        head = self.named or self.best
        return draw(self.translator, head, self.test_pairs, Path(folder), limit, gold)

    def __str__(self) -> str:
        return as_text(self.show, WIDTH)

    def _repr_html_(self) -> str:
        return sheet_html(self.sheet())

    def show(self, console: Console) -> None:
        """Print the tables."""
        show(self.sheet(), console)

    def to_markdown(self) -> str:
        return markdown(self.sheet())

    def sheet(self) -> Sheet:
        columns = ["", "head", "dev", "test", "95% interval", "precision", "recall"]
        measured = Table(
            f"error rate, chosen on {self.dev_sentences:,} dev sentences, measured on "
            f"{self.test_sentences:,} test sentences",
            columns,
            [row.cells(self.best) for row in self.rows],
            "llrrrrr",
        )
        cost = Table("measured", ["", ""], self.about.cost())
        tables = [self.by_head(), measured, cost, *self.about.tables()]
        notes = list(NOTES)
        if self.trained_on != "grammar":
            notes.append(f"The model was trained on {self.trained_on}, not on these sentences.")
        title = f"Word alignments of {self.about.model} on the embedded grammar"
        return Sheet(title, tables, self.about.quoted(), notes)

    def by_head(self) -> Table:
        """A row for each head, in the order of the layers, with its averages."""
        ways = {"as output": (0, False), "as input": (1, False)}
        ways |= {f"{name}, by share": (shift, True) for name, (shift, _) in list(ways.items())}
        rates = {
            (h.layer, h.head, h.shift, h.share): tally.error_rate for h, tally in self.dev.items()
        }
        which = sorted({(h.layer, h.head) for h in self.dev}, key=_last_if_none)
        rows = [
            [_called(*one), *(f"{rates[*one, *way]:.1%}" for way in ways.values())] for one in which
        ]
        return Table(
            f"error rate of every head, {self.dev_sentences:,} dev sentences", ["", *ways], rows
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "alignment",
            "trained_on": self.trained_on,
            "dev_sentences": self.dev_sentences,
            "test_sentences": self.test_sentences,
            "dev_error_rates": {head.name: tally.error_rate for head, tally in self.dev.items()},
            "best": self.best.name,
            "test": [row.to_json() for row in self.rows],
            "circumstances": asdict(self.about),
        }


def _last_if_none(numbers: tuple[int | None, ...]) -> list[float]:
    return [float("inf") if number is None else number for number in numbers]


def _called(layer: int | None, head: int | None) -> str:
    if layer is None:
        return "all heads averaged"
    return f"layer {layer + 1}, " + ("averaged" if head is None else f"head {head + 1}")
