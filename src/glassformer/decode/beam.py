"""Beam search (§6.1): its state as arrays, and one step of it as compiled code.

A step extends every hypothesis by its most likely tokens and merges these candidates. Candidates
that end are finished; the W best of the others are the hypotheses of the next step. Tokens are
stored once, with the number of the hypothesis that they continue; `answers` follows these back
pointers. Greedy search is a beam of width 1 with one candidate. Sampling uses the same step: its
candidates are drawn tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled import compiled, inlined
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


@compiled
def advance(
    beam: Beam, values: Values, ids: Ids, eos: int, alpha: float, candidates: Candidates
) -> None:
    """Take one step of the search in every live sentence.

    `values` and `ids`, (n_live, H, k), are tokens and their log-probabilities that may continue
    each hypothesis, of the live sentences in the order of `beam.live`. H is 1 in the first step.
    `alpha` is the exponent of the length penalty. Sentences that are done leave `beam.live`.
    """
    width, wanted = beam.log_probs.shape[1], candidates.tokens.shape[1]
    n_live = 0
    for row in range(beam.n_live[0]):
        b = beam.live[row]
        _merge(beam, b, values[row], ids[row], candidates)
        length = beam.length[b]
        last = length + 1 == beam.limits[b]
        survivors = 0
        for c in range(wanted):
            total, token = candidates.log_probs[b, c], candidates.tokens[b, c]
            candidates.ended[b, c] = False
            if total == -np.inf:
                continue
            if token == eos or last:
                if c < width:
                    candidates.ended[b, c] = True
                    _finish(beam, b, total, token, candidates.parents[b, c], alpha)
            elif survivors < width:
                beam.log_probs[b, survivors] = total
                beam.tokens[b, length, survivors] = token
                beam.parents[b, length, survivors] = candidates.parents[b, c]
                candidates.survivors[b, survivors] = c
                survivors += 1
        for w in range(survivors, width):
            beam.log_probs[b, w] = -np.inf
            beam.tokens[b, length, w] = 0
            beam.parents[b, length, w] = 0
            candidates.survivors[b, w] = -1
        beam.length[b] = length + 1
        if not last and not _is_decided(beam, b, alpha):
            beam.live[n_live] = b
            n_live += 1
    beam.n_live[0] = n_live


@inlined
def _merge(beam: Beam, b: int, values: Values, ids: Ids, candidates: Candidates) -> None:
    """Sort the continuations of all hypotheses, (H, k), into the candidates of sentence b.

    Equal log-probabilities stay in the order of hypotheses, then of tokens.
    """
    wanted = candidates.tokens.shape[1]
    for c in range(wanted):
        candidates.log_probs[b, c] = -np.inf
        candidates.tokens[b, c] = 0
        candidates.parents[b, c] = 0
    for w in range(values.shape[0]):
        for i in range(values.shape[1]):
            total = beam.log_probs[b, w] + values[w, i]
            place = wanted
            while place > 0 and total > candidates.log_probs[b, place - 1]:
                place -= 1
                if place + 1 < wanted:
                    candidates.log_probs[b, place + 1] = candidates.log_probs[b, place]
                    candidates.tokens[b, place + 1] = candidates.tokens[b, place]
                    candidates.parents[b, place + 1] = candidates.parents[b, place]
            if place < wanted:
                candidates.log_probs[b, place] = total
                candidates.tokens[b, place] = ids[w, i]
                candidates.parents[b, place] = w


@inlined
def _finish(beam: Beam, b: int, log_prob: float, token: int, parent: int, alpha: float) -> None:
    """Insert a hypothesis that ended into the N best; behind those of equal score."""
    length, n = beam.length[b] + 1, beam.finished_score.shape[1]
    score = log_prob / _penalty(min(length, beam.counted[b]), alpha)
    place = beam.n_finished[b]
    if place < n:
        beam.n_finished[b] = place + 1
    while place > 0 and score > beam.finished_score[b, place - 1]:
        place -= 1
        if place + 1 < n:
            beam.finished_score[b, place + 1] = beam.finished_score[b, place]
            beam.finished_log_prob[b, place + 1] = beam.finished_log_prob[b, place]
            beam.finished_length[b, place + 1] = beam.finished_length[b, place]
            beam.finished_parent[b, place + 1] = beam.finished_parent[b, place]
            beam.finished_token[b, place + 1] = beam.finished_token[b, place]
    if place < n:
        beam.finished_score[b, place] = score
        beam.finished_log_prob[b, place] = log_prob
        beam.finished_length[b, place] = length
        beam.finished_parent[b, place] = parent
        beam.finished_token[b, place] = token


@inlined
def _is_decided(beam: Beam, b: int, alpha: float) -> bool:
    """Return whether no live hypothesis can still enter the N best: the exact stopping rule.

    A log-probability only falls. The best score that is left to the best hypothesis is thus its
    present log-probability over the length penalty that favours it most: that of the greatest
    length that counts, or with alpha <= 0 of the next.
    """
    best, n = beam.log_probs[b, 0], beam.finished_score.shape[1]
    if best == -np.inf:
        return True
    if beam.n_finished[b] < n:
        return False
    length = beam.limits[b] if alpha > 0 else beam.length[b] + 1
    length = min(length, beam.counted[b])
    return beam.finished_score[b, n - 1] >= best / _penalty(length, alpha)


@inlined
def _penalty(length: int, alpha: float) -> float:
    """Compute `options.penalty` of a length that counts."""
    return ((5 + length) / 6) ** alpha


def answers(beam: Beam, eos: int) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each sentence, best first."""
    return [
        [_answer(beam, b, n, eos) for n in range(count)]
        for b, count in enumerate(beam.n_finished.tolist())
    ]


def _answer(beam: Beam, b: int, n: int, eos: int) -> Hypothesis:
    token, parent = int(beam.finished_token[b, n]), int(beam.finished_parent[b, n])
    path = np.empty(int(beam.finished_length[b, n]) - 1, np.int64)
    _follow(beam.tokens[b], beam.parents[b], parent, path)
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
    found = np.empty((len(live), width, int(beam.length[live[0]])), np.int64)
    for row, b in enumerate(live.tolist()):
        for w in range(width):
            _follow(beam.tokens[b], beam.parents[b], w, found[row, w])
    return found


@compiled
def _follow(tokens: Int32s, parents: Int32s, w: int, path: Ids) -> None:
    """Write the tokens of hypothesis w at position len(path) - 1, first to last, to `path`."""
    for t in range(len(path) - 1, -1, -1):
        path[t] = tokens[t, w]
        w = parents[t, w]
