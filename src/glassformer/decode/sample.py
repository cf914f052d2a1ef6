"""Sampling: draw tokens from the model's distribution, by temperature, top-k and top-p."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.decode.decoder import Ids, Values
from glassformer.decode.options import SearchOptions

Probabilities = NDArray[np.float64]


class Sampler:
    """Draws for one batch.

    Each sentence has a random generator of its own, seeded by the options' seed and the sentence's
    number. Its draws therefore do not depend on the other sentences of the batch.
    """

    def __init__(self, options: SearchOptions, numbers: Sequence[int]) -> None:
        self.options = options
        self.generators = [
            np.random.default_rng((options.seed % 2**64, number % 2**64)) for number in numbers
        ]

    def draw(self, rows: Values, sentences: Ids, forced: NDArray[np.bool_]) -> tuple[Values, Ids]:
        """Draw tokens from log-probabilities (R, H, V); return the log-probabilities and the ids.

        n_best tokens of the one hypothesis of the first step, (R, 1, n_best), later one of each of
        the n_best hypotheses, (R, n_best, 1). Where a prefix forces the token, no random number is
        used: in another batch the same token may have been part of the common prefix.
        """
        n = self.options.n_best
        cumulative = self.distribution(rows).cumsum(-1)
        ids = np.empty((*rows.shape[:2], n // rows.shape[1]), np.int64)
        for row, sentence in enumerate(sentences.tolist()):
            draws = np.full(n, 0.5) if forced[row] else self.generators[sentence].random(n)
            for ladder, taken, u in zip(
                cumulative[row], ids[row], draws.reshape(ids.shape[1:]), strict=True
            ):
                taken[:] = ladder.searchsorted(u * ladder[-1], side="right")
        return np.take_along_axis(rows, ids, -1), ids

    def distribution(self, rows: Values) -> Probabilities:
        """Return what to draw from: probabilities that need not sum to 1, (R, H, V)."""
        logits = rows.astype(np.float64) / self.options.temperature
        if 0 < self.options.top_k < rows.shape[-1]:
            least = np.partition(logits, -self.options.top_k, -1)[..., -self.options.top_k]
            logits[logits < least[..., None]] = -np.inf
        probabilities = np.exp(logits - logits.max(-1, keepdims=True))
        top_p = self.options.top_p
        return nucleus(probabilities, top_p) if top_p < 1 else probabilities


def nucleus(probabilities: Probabilities, p: float) -> Probabilities:
    """Keep the fewest tokens whose share of the sum reaches p (Holtzman et al., 2020)."""
    order = np.argsort(-probabilities, axis=-1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, -1)
    reached = ordered.cumsum(-1)
    before = reached - ordered  # of the tokens that are more likely
    kept = np.where(before < p * reached[..., -1:], ordered, 0.0)
    result = np.empty_like(probabilities)
    np.put_along_axis(result, order, kept, -1)
    return result
