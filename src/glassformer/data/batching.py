"""Batches by token budget, cut from sentences of like length.

The order of batches is a function of (seed, epoch, index) and of nothing else: any batch of any
epoch can be made again, which is what a resumed run needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def draw_seed(*numbers: int) -> int:
    """One seed of several numbers, such as those of a run, an epoch and a batch."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Padding:
    """How many cells of the padded tensors hold a token."""

    real: int
    cells: int

    @property
    def share(self) -> float:
        return 1 - self.real / self.cells if self.cells else 0.0


class TokenBatches:
    """Cuts an epoch into batches of at most `budget` cells on the longer side, padding counted.

    `lengths` holds a row per example and a column per side (source, target). Examples are sorted
    by length, ties in an order drawn anew each epoch, cut, and the batches shuffled: neighbours
    change from epoch to epoch, and hardly anything is padded. An example longer than the budget is
    a batch of its own.
    """

    def __init__(self, lengths: NDArray[np.integer], budget: int, seed: int = 0) -> None:
        self.lengths = lengths[:, None] if lengths.ndim == 1 else lengths
        self.budget, self.seed = budget, seed

    def epoch(self, number: int, shuffle: bool = True) -> list[Indices]:
        """The batches of one epoch, each the indices of its examples."""
        random = np.random.default_rng([self.seed, number])
        count = len(self.lengths)
        ties = random.permutation(count) if shuffle else np.arange(count)
        by_length = ties[np.lexsort(self._keys()[ties].T)]
        batches = list(self._cut(by_length))
        if shuffle:
            random.shuffle(batches)
        return batches

    def _keys(self) -> NDArray[np.integer]:
        """Sorting keys, the primary one last: target lengths rise, and within each the source
        lengths rise and fall by turns, so that neighbours are alike on both sides throughout."""
        *others, primary = self.lengths.T
        return np.stack([np.where(primary % 2, -other, other) for other in others] + [primary], 1)

    def _cut(self, order: Indices) -> Iterator[Indices]:
        longest = self.lengths[order].max(1) if len(order) else order
        start, widest = 0, 0
        for end, length in enumerate(longest.tolist()):
            widest = max(widest, length)
            if end > start and widest * (end - start + 1) > self.budget:
                yield order[start:end]
                start, widest = end, length
        if start < len(order):
            yield order[start:]

    def padding(self, batches: list[Indices]) -> Padding:
        """Count the tokens and cells of the batches, each side padded to its longest."""
        real = sum(int(self.lengths[batch].sum()) for batch in batches)
        cells = sum(len(batch) * int(self.lengths[batch].max(0).sum()) for batch in batches)
        return Padding(real, cells)
