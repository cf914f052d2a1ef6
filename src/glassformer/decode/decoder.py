"""The Decoder protocol: what a search asks of a model.

    decoding = decoder.start(sources, batch=B, width=W, max_length=T)
    scores = decoding.prefill(ids)                     # <s> and the common prefix
    while ...:
        values, tokens = scores.top(k, banned)         # or scores.rows()
        scores = decoding.step(tokens, parents)

Everything is numpy. B sentences, W hypotheses per sentence, V vocabulary. Implementations:
`decode.torch_decoder.TorchDecoder`, `engine.model.CompiledModel` and `decode.ensemble.Ensemble`.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Ids = NDArray[np.int64]


class Scores(Protocol):
    """Log-probabilities of the next token of every hypothesis, valid until the decoder's next call.

    They are the model's own: nothing renormalises them.
    """

    def top(self, k: int, banned: Sequence[int] = ()) -> tuple[Values, Ids]:
        """Return the k most likely tokens of each row, (B, W, k): values and ids, best first.

        Equal values are ordered by the lower id. Banned ids never appear. Where fewer than k ids
        remain, the value is minus infinity and the id 0.
        """

    def rows(self) -> Values:
        """Return all log-probabilities, (B, W, V), as a fresh array that the caller may change."""


class Decoding(Protocol):
    """A batch of sentences that is being decoded.

    A Decoding may have one more method, which `decode.search` uses where the rules are plain:

        run(beam, bos, eos, alpha, candidates) -> None

    It takes steps of a beam search without Python in between, for a fraction of a second: step,
    top-k with `beam.banned`, `decode.beam.advance`, and `keep` for the sentences that go on. If
    nothing has been read yet, the first step reads the begin mark `bos`.
    """

    def prefill(self, ids: Ids) -> Scores:
        """Read the first tokens, (B, P), at once. The W axis of the scores is the P positions."""

    def step(self, tokens: Ids, parents: Ids | None = None) -> Scores:
        """Append tokens[b, w] to hypothesis parents[b, w] of the step before, (B, W) each.

        Without parents, hypothesis w continues w. After `prefill` every parent is 0.
        """

    def keep(self, sentences: Ids) -> None:
        """Go on with these rows of the current batch only, in this order."""


class Decoder(Protocol):
    """A translator or language model that can be searched.

    A Decoder may have two more methods: parts(batch, width) -> int, the number of threads that
    `decode.search` searches parts of a batch on (without it, one), and alone() -> Decoder, the same
    decoder on one thread, which then searches each part.
    """

    @property
    def pad_id(self) -> int: ...

    @property
    def vocab_size(self) -> int:
        """Number of target tokens."""

    @property
    def reads_source(self) -> bool:
        """Return whether it is a translator, not a language model."""

    @property
    def max_target(self) -> int | None:
        """Number of learned target positions; None: any number."""

    def start(
        self, sources: Sequence[Sequence[int]] | None, batch: int, width: int, max_length: int
    ) -> Decoding:
        """Encode the sources, ids without padding; None for a language model.

        `max_length` is the greatest number of output tokens of a hypothesis.
        """
