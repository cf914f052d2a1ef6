"""Several sources in one training text, each with a share of the target tokens.

A mixture has no end, so an epoch of it is a fixed number of target tokens. Each source is an
endless sequence of permutations of its examples, and epoch `e` takes piece number `e` of that
sequence: small sources repeat, large ones are read to their end before any example comes again.
The examples of an epoch are a function of (seed, epoch) and of the sources in use, so that any
epoch can be made without the ones before it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from glassformer.data.batch import Examples
from glassformer.data.batching import draw_seed
from glassformer.data.ragged import Ids, Ragged
from glassformer.errors import DataError

# Takes the sides of an epoch's examples, the source of each and a seed; gives the sides to read.
Augment = Callable[[list[list[Ids]], NDArray[np.int64], int], list[list[Ids]]]


@dataclass(frozen=True)
class Source:
    """Examples with their share of the mixture, in use from `begin` to `end` of the run."""

    name: str
    examples: Examples
    weight: float
    begin: float = 0.0
    end: float = 1.0
    both_directions: bool = False  # either side is the target of half of the examples

    @cached_property
    def tokens(self) -> float:
        """Target tokens of one pass over the source."""
        lengths = self.examples.lengths
        return float(lengths.mean(1).sum() if self.both_directions else lengths[:, -1].sum())

    def is_used(self, progress: float) -> bool:
        return self.begin <= progress < self.end or (progress >= 1 and self.end == 1)

    def piece(self, seed: int, number: int, size: int) -> NDArray[np.int64]:
        """Piece `number` of `size` examples of the endless sequence of permutations."""
        count, begin, end = len(self.examples), number * size, (number + 1) * size
        passes = range(begin // count, -(-end // count))
        drawn = np.concatenate([self._permutation(seed, number) for number in passes])
        first = begin - passes.start * count
        return drawn[first : first + size]

    def _permutation(self, seed: int, number: int) -> NDArray[np.int64]:
        """Seeded by name, so that one source's order does not depend on what the others are."""
        key = [seed, crc32(self.name.encode()), number]
        return np.random.default_rng(key).permutation(len(self.examples))


@dataclass(frozen=True)
class Mixture:
    """`Examples` of several texts. `augment` changes the examples of each epoch, if given."""

    sources: tuple[Source, ...]
    epoch_tokens: int
    augment: Augment | None = None

    @property
    def kind(self) -> str:
        return self.sources[0].examples.kind

    def __len__(self) -> int:
        return sum(len(source.examples) for source in self.sources)

    def sizes(self, progress: float) -> dict[str, int]:
        """Examples of an epoch by source, at this share of the run."""
        used = [source for source in self.sources if source.is_used(progress)]
        if not used:
            raise DataError(
                f"No source of the mixture is in use at {progress:.0%} of the run.",
                "Each is read from its `begin` to its `end`, shares of the run.",
                "Leave `begin` and `end` of one of data.sources out.",
            )
        total = sum(source.weight for source in used)
        return {
            source.name: max(1, round(self.epoch_tokens * source.weight / total / mean))
            for source in used
            for mean in [source.tokens / len(source.examples)]
        }

    def epoch(self, seed: int, number: int, progress: float = 0.0) -> Examples:
        """The examples of epoch `number`, one source after the other."""
        sizes, by_name = self.sizes(progress), {s.name: s for s in self.sources}
        sides: list[list[Ids]] = [[] for _ in self.sources[0].examples.sides]
        for name, size in sizes.items():
            indices = by_name[name].piece(seed, number, size).tolist()
            for rows, side in zip(sides, by_name[name].examples.sides, strict=True):
                rows.extend(side[i] for i in indices)
        if self.augment is not None:
            source_of = np.repeat(np.arange(len(sizes)), list(sizes.values()))
            sides = self.augment(sides, source_of, draw_seed(seed, number))
        hidden = self.sources[0].examples.hidden
        return Examples(self.kind, tuple(map(Ragged.of, sides)), hidden=hidden)


def compose(*steps: Augment | None) -> Augment | None:
    """One step after the other, each with a seed of its own; None if there is none."""
    given = [step for step in steps if step is not None]

    def augment(sides: list[list[Ids]], source_of: NDArray[np.int64], seed: int) -> list[list[Ids]]:
        for number, step in enumerate(given):
            sides = step(sides, source_of, draw_seed(seed, number))
        return sides

    return augment if given else None


def passes(mixture: Mixture, tokens: float) -> dict[str, float]:
    """How often a run of so many target tokens reads each source."""
    bounds = {0.0, *(s.begin for s in mixture.sources), *(s.end for s in mixture.sources)}
    read = dict.fromkeys((source.name for source in mixture.sources), 0.0)
    for begin, end in pairwise(sorted(bounds)):
        for name, size in mixture.sizes(begin).items():
            read[name] += (end - begin) * tokens / mixture.epoch_tokens * size
    return {source.name: read[source.name] / len(source.examples) for source in mixture.sources}
