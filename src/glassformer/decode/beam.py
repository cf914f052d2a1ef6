"""Beam search (§6.1): its state as arrays, and one step of it.

A step extends every hypothesis by its most likely tokens and merges these candidates. Candidates
that end are finished; the W best of the others are the hypotheses of the next step. Tokens are
stored once, with the number of the hypothesis that they continue; `answers` follows these back
pointers. Greedy search is a beam of width 1 with one candidate. Sampling uses the same step: its
candidates are drawn tokens.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled import Entry
from glassformer.compiled.structs import address, struct, struct_type
from glassformer.decode.decoder import Ids, Values
from glassformer.decode.options import Hypothesis

Float64s = NDArray[np.float64]
Int32s = NDArray[np.int32]


class Beam(NamedTuple):
    """The state of a search: B sentences, W hypotheses each, N finished ones, T tokens at most.

    Arrays are indexed by the sentence's number in the batch and never shrink.
    """

    live: Ids  # (B,) sentences that are still searched, in the first n_live[0] places
    n_live: Ids  # (1,)
    length: Ids  # (B,) tokens of every hypothesis of the sentence, its prefix included
    limits: Ids  # (B,) greatest length of an answer
    counted: Ids  # (B,) greatest length that the length penalty counts
    log_probs: Float64s  # (B, W) sum over the tokens; -inf: no hypothesis. Best first
    tokens: Int32s  # (B, T, W) token of hypothesis w at position t,
    parents: Int32s  # (B, T, W) and the hypothesis of position t - 1 that it continues
    banned: Ids  # ids that are never produced: padding and the begin mark
    finished_log_prob: Float64s  # (B, N) finished hypotheses, best first
    finished_score: Float64s  # (B, N) log-probability / length penalty
    finished_length: Int32s  # (B, N) the last token counted
    finished_parent: Int32s  # (B, N) the hypothesis that the last token continues
    finished_token: Int32s  # (B, N) the last token: the end mark, or the one at the length limit
    n_finished: Ids  # (B,)


class Candidates(NamedTuple):
    """The continuations that one step compared, C = 2W of each sentence (1 if W = 1), best first.

    Scratch memory of `advance`; an observer reads it. Unused places have log-probability -inf.
    """

    parents: Ids  # (B, C) the hypothesis that each continues
    tokens: Ids  # (B, C)
    log_probs: Float64s  # (B, C) of the whole hypothesis, the token included
    ended: NDArray[np.bool_]  # (B, C) finished in this step
    survivors: Ids  # (B, W) the candidate that is hypothesis w of the next step; -1: none


# A Beam and its Candidates as compiled code takes them: sizes, then where each array lies.
SEARCH = struct_type(
    *("n_sentences", "n_positions", "width", "n_best", "n_banned", "n_candidates"),
    *Beam._fields,
    *(f"candidate_{name}" for name in Candidates._fields),
)
ADVANCE = Entry("glassformer.decode.loops:advance_entry", "qqqqqqqd")
FOLLOW = Entry("glassformer.decode.loops:follow", "qqqqqq")


def start(
    limits: Ids,
    width: int,
    n_best: int,
    banned: Sequence[int],
    prefix: Ids,
    log_probs: Float64s,
    counted: Ids | None = None,
) -> Beam:
    """Return a beam with one hypothesis per sentence: its prefix, (B, P), of log-probability (B,).

    Every limit is greater than P. Without `counted` the length penalty counts every token.
    """
    batch, length = prefix.shape
    history = batch, int(limits.max(initial=1)), width
    beam = Beam(
        live=np.arange(batch),
        n_live=np.array([batch]),
        length=np.full(batch, length, np.int64),
        limits=limits.astype(np.int64),
        counted=(limits if counted is None else counted).astype(np.int64),
        log_probs=np.full((batch, width), -np.inf),
        tokens=np.empty(history, np.int32),
        parents=np.empty(history, np.int32),
        banned=np.array(banned, np.int64),
        finished_log_prob=np.full((batch, n_best), -np.inf),
        finished_score=np.full((batch, n_best), -np.inf),
        finished_length=np.zeros((batch, n_best), np.int32),
        finished_parent=np.zeros((batch, n_best), np.int32),
        finished_token=np.zeros((batch, n_best), np.int32),
        n_finished=np.zeros(batch, np.int64),
    )
    beam.log_probs[:, 0] = log_probs
    beam.tokens[:, :length] = prefix[..., None]
    beam.parents[:, :length] = 0
    return beam


def scratch(batch: int, width: int) -> Candidates:
    """Return the scratch memory of `advance`.

    2W candidates hold W that do not end: each hypothesis has one that ends.
    """
    shape = batch, 2 * width if width > 1 else 1
    return Candidates(
        parents=np.zeros(shape, np.int64),
        tokens=np.zeros(shape, np.int64),
        log_probs=np.full(shape, -np.inf),
        ended=np.zeros(shape, np.bool_),
        survivors=np.full((batch, width), -1, np.int64),
    )


def advance(
    beam: Beam, values: Values, ids: Ids, eos: int, alpha: float, candidates: Candidates
) -> None:
    """Take one step of the search in every live sentence: see `loops.advance`."""
    values, ids = np.ascontiguousarray(values), np.ascontiguousarray(ids)
    search = search_struct(beam, candidates)
    n, n_lists, k = values.shape
    ADVANCE(address(search), address(values), address(ids), n, n_lists, k, eos, alpha)


def search_struct(beam: Beam, candidates: Candidates) -> NDArray[Any]:
    """Return a SEARCH with these arrays, which must be kept as long as it is used."""
    n_sentences, n_positions, width = beam.tokens.shape
    return struct(
        SEARCH,
        n_sentences=n_sentences,
        n_positions=n_positions,
        width=width,
        n_best=beam.finished_score.shape[1],
        n_banned=len(beam.banned),
        n_candidates=candidates.tokens.shape[1],
        **beam._asdict(),
        **{f"candidate_{name}": array for name, array in candidates._asdict().items()},
    )


def answers(beam: Beam, eos: int) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each sentence, best first."""
    return [
        [_answer(beam, b, n, eos) for n in range(count)]
        for b, count in enumerate(beam.n_finished.tolist())
    ]


def _answer(beam: Beam, b: int, n: int, eos: int) -> Hypothesis:
    token, parent = int(beam.finished_token[b, n]), int(beam.finished_parent[b, n])
    path = _path(beam, b, parent, int(beam.finished_length[b, n]) - 1)
    complete = token == eos
    return Hypothesis(
        ids=path.tolist() if complete else [*path.tolist(), token],
        log_probability=float(beam.finished_log_prob[b, n]),
        score=float(beam.finished_score[b, n]),
        complete=complete,
    )


def histories(beam: Beam) -> Ids:
    """Return the tokens of every hypothesis of the live sentences, (n_live, W, length)."""
    live, width = beam.live[: beam.n_live[0]], beam.log_probs.shape[1]
    length = int(beam.length[live[0]])
    return np.array([[_path(beam, b, w, length) for w in range(width)] for b in live.tolist()])


def _path(beam: Beam, b: int, w: int, length: int) -> Ids:
    """Return the tokens of hypothesis w of sentence b at position `length`, first to last."""
    path = np.empty(length, np.int64)
    width, first = beam.tokens.shape[2], b * beam.tokens[0].size * beam.tokens.itemsize
    tokens, parents = address(beam.tokens) + first, address(beam.parents) + first
    FOLLOW(tokens, parents, width, w, length, address(path))
    return path
