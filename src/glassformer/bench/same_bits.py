"""`bench same-bits`: a sentence's output and score do not depend on the batch it is decoded in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from glassformer.bench.sentences import sentence_pairs
from glassformer.callable_module import make_callable
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import Hypothesis, search
from glassformer.measure import Tick
from glassformer.pipeline import Translator, load_translator


@dataclass(frozen=True)
class Plan:
    """Batches and threads to compare with every sentence alone on one thread."""

    limit: int = 1_014  # sentences
    beam: int = SearchOptions.beam_size
    batches: tuple[int, ...] = (1, 7, 32, 64)
    threads: tuple[int, ...] = (1, 2)

    @property
    def steps(self) -> int:
        return 4 * (1 + len(self.batches) * len(self.threads))  # fp32 and INT8, greedy and beam


@dataclass(frozen=True)
class Comparison:
    """The sentences whose output or score depends on the batch."""

    precision: str
    beam: int
    differing: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        search = "greedy" if self.beam == 1 else f"beam {self.beam}"
        return f"{self.precision}, {search}"


@dataclass(frozen=True)
class SameBits:
    """All comparisons of a model; `differing` are the numbers of the sentences that differ."""

    model: str
    sentences: str  # name of the file or the set
    count: int  # sentences
    batches: tuple[int, ...]
    threads: tuple[int, ...]
    comparisons: list[Comparison]

    @property
    def differing(self) -> set[int]:
        return set[int]().union(*(one.differing for one in self.comparisons))

    def __str__(self) -> str:
        batches, threads = ", ".join(map(str, self.batches)), " and ".join(map(str, self.threads))
        lines = [
            f"{self.model}, {self.count:,} sentences of {self.sentences}",
            f"batches of {batches}, shuffled, {threads} threads",
        ]
        for one in self.comparisons:
            lines.append(f"  {one!s:<16} {len(one.differing):,} of {self.count:,} differ")
        return "\n".join([*lines, f"{len(self.differing):,} of {self.count:,} differ"])


def compare(
    model: str, plan: Plan, source: Path | None = None, tick: Tick = lambda: None
) -> SameBits:
    """Decode each sentence alone, and in batches on several threads; compare every bit."""
    trained_on = load_translator(model).settings.data.name
    found = sentence_pairs(source, None, plan.limit, trained_on)
    comparisons: list[Comparison] = []
    for precision, int8 in (("fp32", False), ("INT8", True)):
        translators = {n: load_translator(model, int8, threads=n) for n in {1, *plan.threads}}
        encoded = translators[1].source_tokenizer.encode(found.sources)
        sources = [[*ids[: translators[1].max_length], EOS] for ids in encoded]
        for beam in (1, plan.beam):
            options = translators[1].options(beam_size=beam)
            comparison = Comparison(precision, beam)
            comparisons.append(comparison)
            expected = decode(translators[1], sources, range(len(sources)), 1, options)
            tick()
            for threads in plan.threads:
                for batch in plan.batches:
                    order = list(range(len(sources)))
                    Random(batch).shuffle(order)
                    others = decode(translators[threads], sources, order, batch, options)
                    comparison.differing.update(
                        i for i in order if bits(others[i]) != bits(expected[i])
                    )
                    tick()
    count = len(found.sources)
    return SameBits(model, found.name, count, plan.batches, plan.threads, comparisons)


def decode(
    translator: Translator,
    sources: list[list[int]],
    order: Sequence[int],
    batch: int,
    options: SearchOptions,
) -> dict[int, Hypothesis]:
    """Return the best output of each source, decoded in batches taken in this order."""
    found: dict[int, Hypothesis] = {}
    for first in range(0, len(order), batch):
        numbers = order[first : first + batch]
        answers = search(translator.decoders, [sources[i] for i in numbers], BOS, EOS, options)
        found.update((i, best) for i, (best, *_) in zip(numbers, answers, strict=True))
    return found


def bits(found: Hypothesis) -> tuple[list[int], str, str]:
    """Return the output with its scores to the last bit."""
    return found.ids, found.score.hex(), found.log_probability.hex()


make_callable(__name__, "glassformer.api.bench", "same_bits")
