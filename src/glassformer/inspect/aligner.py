"""Align the words of texts by cross-attention, or score such alignments on the grammar."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from glassformer.data import grammar
from glassformer.data.direction import from_language
from glassformer.data.grammar import AlignedPair
from glassformer.errors import SettingsError
from glassformer.evaluate.card import Circumstances
from glassformer.evaluate.examples import chunks_by_length, from_set
from glassformer.evaluate.translation import translate_all
from glassformer.inspect.alignment import (
    MIN_SENTENCES,
    Head,
    align,
    best_of_each,
    most_informative,
    tallies,
)
from glassformer.inspect.alignment_figures import PICTURES, draw
from glassformer.inspect.alignment_scores import AlignmentScores, Row, baselines
from glassformer.inspect.links import RESAMPLES, Links, Tally, TextPair, pharaoh
from glassformer.inspect.word_attention import BATCH_TOKENS, check_lines, split_words
from glassformer.machine import machine, peak_memory
from glassformer.pipeline import Translator
from glassformer.progress import Watch

CHOICE = 1_000  # sentences, at most, that a head is chosen on


@dataclass(frozen=True)
class Alignment:
    """The links between the words of sentences and their translations."""

    translator: Translator
    pairs: list[TextPair]
    head: Head
    reason: str  # why this head: named, or how it was chosen
    links: list[Links]  # (source word, target word) of each pair, counted from 0

    def pharaoh(self) -> list[str]:
        """Return the links of each pair as `0-0 1-2`, source word first."""
        return [pharaoh(links) for links in self.links]

    def words(self) -> list[str]:
        """Return the words of each pair as `source ||| target`, with spaces between them."""
        return [f"{' '.join(p.source_words)} ||| {' '.join(p.target_words)}" for p in self.pairs]

    def draw(self, folder: str | Path, limit: int = PICTURES) -> list[Path]:
        """Draw the first pairs as SVG and PNG, named by their number; return the files."""
        return draw(self.translator, self.head, self.pairs, Path(folder), limit)

    def __str__(self) -> str:
        return "\n".join(self.pharaoh())


@dataclass(frozen=True)
class Aligner:
    """A translator whose cross-attention is read."""

    translator: Translator
    watch: Watch
    batch_tokens: int = BATCH_TOKENS

    def head(self, name: str | None) -> Head | None:
        """Return the head of this name; refuse one that the model does not have."""
        if name is None:
            return None
        head, settings = Head.parse(name), self.translator.settings.model
        head.check(settings.decoder_layers, settings.n_heads)
        return head

    # The grammar, whose true alignment is known

    def scores(self, model: str, command: str, head: Head | None, count: int) -> AlignmentScores:
        """Score every head on `count` sentences, and the best of each family on as many others."""
        data = self.translator.settings.data
        if (data.source_language, data.target_language) != ("en", "fr"):
            raise SettingsError(
                f"{model} translates {data.source_language} to {data.target_language}.",
                "The sentences whose true alignment is known are English and French.",
                "Align text of your own: --source F --target F.",
            )
        start = perf_counter()
        dev, test = (list(grammar.pairs(split, count)) for split in ("valid", "test"))
        rates = self._tallies("dev", dev)
        chosen = best_of_each(rates) | ({"named": head} if head else {})
        measured = self._tallies("test", test)
        rows = [Row(family, h, rates[h].error_rate, measured[h]) for family, h in chosen.items()]
        rows += [Row(name, None, None, tally) for name, tally in baselines(test).items()]
        about = self._circumstances(model, command, count, perf_counter() - start)
        return AlignmentScores(self.translator, dev, test, rates, rows, _lowest(rates), about, head)

    def _tallies(self, part: str, pairs: list[AlignedPair]) -> dict[Head, Tally]:
        with self.watch(f"reading {part}", len(pairs)) as tick:
            return tallies(self.translator, pairs, self.batch_tokens, tick)

    def _circumstances(self, model: str, command: str, count: int, seconds: float) -> Circumstances:
        settings = {
            "int8": self.translator.int8,
            "batch_tokens": self.batch_tokens,
            "resamples": RESAMPLES,
        }
        memory = peak_memory()
        sets = [from_set("grammar", split, limit=count) for split in ("valid", "test")]
        checksums = {name: digest for one in sets for name, digest in one.checksums.items()}
        return Circumstances(command, model, checksums, settings, machine(), seconds, memory)

    # Texts

    def pairs(
        self, sources: Sequence[str], targets: Sequence[str] | None, beam: int, tokenised: bool
    ) -> list[TextPair]:
        """Return the words of texts and their translations; without targets, translate them."""
        translator = self.translator
        data, to = translator.settings.data, translator.to or ""
        plain = translator.plain  # attention is between subwords of the normalised text
        sources = [plain(text, from_language(data, to)) for text in sources]
        self._check(sources, "source")
        if targets is None:
            targets = self._translations(sources, beam)
        else:
            targets = [plain(text, to) for text in targets]
            self._check(targets, "target")
        cut = (lambda text: tuple(text.split())) if tokenised else split_words
        return [TextPair(a, b, cut(a), cut(b)) for a, b in zip(sources, targets, strict=True)]

    def _check(self, texts: Sequence[str], side: str) -> None:
        tokenizer = getattr(self.translator, f"{side}_tokenizer")
        lengths = map(len, tokenizer.encode(texts))
        check_lines(list(texts), lengths, self.translator.max_length, side)

    def _translations(self, sources: Sequence[str], beam: int) -> list[str]:
        with self.watch("translating", len(chunks_by_length(sources))) as tick:
            options = self.translator.options(beam_size=beam)
            return translate_all(self.translator, sources, options, tick=tick).texts

    def align(self, pairs: list[TextPair], head: Head | None) -> Alignment:
        """Link the words of each pair by the attention of a head, chosen if none is given."""
        chosen, reason = (head, "named") if head else self.choose(pairs)
        found = []
        with self.watch("aligning", len(pairs)) as tick:
            for _, links in align(self.translator, pairs, chosen, self.batch_tokens):
                found.append(links)
                tick()
        return Alignment(self.translator, pairs, chosen, reason, found)

    def choose(self, pairs: list[TextPair]) -> tuple[Head, str]:
        """Return the head to read, and why.

        A model of the grammar is read by its best head there. Others are read by the average whose
        links have the most mutual information; few lines by the average of all, by share.
        """
        if self.translator.settings.data.name == "grammar":
            rates = self._tallies("the grammar", list(grammar.pairs("valid", CHOICE)))
            return _lowest(rates), "the best on the grammar"
        there = [p for p in pairs if p.source_words and p.target_words][:CHOICE]
        with self.watch("choosing a head", len(there)) as tick:
            head = most_informative(self.translator, there, self.batch_tokens, tick)
        if len(there) < MIN_SENTENCES:
            return head, f"the default for fewer than {MIN_SENTENCES} lines"
        return head, f"by the mutual information of its links in {len(there):,} lines"


def _lowest(rates: dict[Head, Tally]) -> Head:
    return min(rates, key=lambda head: rates[head].error_rate)
