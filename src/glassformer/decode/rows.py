"""Scores in an array, and the k best tokens of each of its rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled import compiled
from glassformer.decode.decoder import Ids, Values


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
    flat = np.ascontiguousarray(rows).reshape(-1, rows.shape[-1])
    _largest(flat, values.reshape(-1, k), ids.reshape(-1, k))
    return values, ids


@compiled
def _largest(rows: Values, values: Values, ids: Ids) -> None:
    """Insert each value of a row into its k best so far, which are sorted."""
    last = values.shape[1] - 1
    for row in range(rows.shape[0]):
        for token in range(rows.shape[1]):
            value = rows[row, token]
            if value > values[row, last]:
                place = last
                while place > 0 and value > values[row, place - 1]:
                    values[row, place] = values[row, place - 1]
                    ids[row, place] = ids[row, place - 1]
                    place -= 1
                values[row, place] = value
                ids[row, place] = token
