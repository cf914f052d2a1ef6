"""Scores in an array, and the k best tokens of each of its rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled import Entry
from glassformer.compiled.structs import address
from glassformer.decode.decoder import Ids, Values

LARGEST = Entry("glassformer.decode.loops:largest_of_rows", "qqqqqq")


class Rows:
    """`Scores` of log-probabilities in a numpy array, (B, W, V)."""

    def __init__(self, log_probs: NDArray[np.floating]) -> None:
        self.log_probs = log_probs.astype(np.float32, copy=False)

    def top(self, k: int, banned: Sequence[int] = ()) -> tuple[Values, Ids]:
        if not len(banned):
            return top(self.log_probs, k)
        rows = self.rows()
        rows[..., list(banned)] = -np.inf
        return top(rows, k)

    def rows(self) -> Values:
        return self.log_probs.copy()


def top(rows: Values, k: int) -> tuple[Values, Ids]:
    """Return values and ids of the k largest of each row, best first, ties by the lower id.

    Places that nothing above minus infinity fills have the value minus infinity and the id 0.
    """
    shape = *rows.shape[:-1], k
    values, ids = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.int64)
    flat = np.ascontiguousarray(rows, np.float32).reshape(-1, rows.shape[-1])
    LARGEST(address(flat), *flat.shape, k, address(values), address(ids))
    return values, ids
