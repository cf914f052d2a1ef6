"""The loops of a search that are compiled: a step of a beam, and the k best of a row."""

import numpy as np

from glassformer.compiled.build import (
    bools,
    float64s,
    floats,
    inlined,
    inner,
    int32s,
    int64s,
    struct_at,
)
from glassformer.decode.beam import SEARCH, Beam, Candidates
from glassformer.decode.decoder import Ids, Values

Address = int
search_at = struct_at(SEARCH)


@inlined
def beam_at(search: Address) -> Beam:
    """Return the beam of a SEARCH."""
    s = search_at(search)
    n, width, n_best = s.n_sentences, s.width, s.n_best
    history, finished = (n, s.n_positions, width), (n, n_best)
    return Beam(
        int64s(s.live, n),
        int64s(s.n_live, 1),
        int64s(s.length, n),
        int64s(s.limits, n),
        int64s(s.counted, n),
        float64s(s.log_probs, (n, width)),
        int32s(s.tokens, history),
        int32s(s.parents, history),
        int64s(s.banned, s.n_banned),
        float64s(s.finished_log_prob, finished),
        float64s(s.finished_score, finished),
        int32s(s.finished_length, finished),
        int32s(s.finished_parent, finished),
        int32s(s.finished_token, finished),
        int64s(s.n_finished, n),
    )


@inlined
def candidates_at(search: Address) -> Candidates:
    """Return the candidates of a SEARCH."""
    s = search_at(search)
    shape = s.n_sentences, s.n_candidates
    return Candidates(
        int64s(s.candidate_parents, shape),
        int64s(s.candidate_tokens, shape),
        float64s(s.candidate_log_probs, shape),
        bools(s.candidate_ended, shape),
        int64s(s.candidate_survivors, (s.n_sentences, s.width)),
    )


def advance_entry(
    search: Address,
    values: Address,
    ids: Address,
    n: int,
    n_lists: int,
    k: int,
    eos: int,
    alpha: float,
) -> None:
    """`advance` for arrays of shape (n, n_lists, k)."""
    shape = n, n_lists, k
    beam, candidates = beam_at(search), candidates_at(search)
    advance(beam, floats(values, shape), int64s(ids, shape), eos, alpha, candidates)


@inner
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


def follow(
    tokens: Address, parents: Address, width: int, w: int, length: int, path: Address
) -> None:
    """Write the tokens of hypothesis w at position `length`, first to last, to `path`."""
    size = length * width
    listed, before, found = int32s(tokens, size), int32s(parents, size), int64s(path, length)
    for t in range(length - 1, -1, -1):
        found[t] = listed[t * width + w]
        w = before[t * width + w]


def largest_of_rows(
    rows: Address, n: int, width: int, k: int, values: Address, ids: Address
) -> None:
    """Insert each value of a row into its k best so far, which are sorted."""
    listed, best, places = floats(rows, (n, width)), floats(values, (n, k)), int64s(ids, (n, k))
    for row in range(n):
        for token in range(width):
            value = listed[row, token]
            if value > best[row, k - 1]:
                place = k - 1
                while place > 0 and value > best[row, place - 1]:
                    best[row, place] = best[row, place - 1]
                    places[row, place] = places[row, place - 1]
                    place -= 1
                best[row, place] = value
                places[row, place] = token
