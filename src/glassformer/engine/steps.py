"""Steps of a decoding: the rows of a step, the slots of hypotheses, and the loop of a search.

Python calls `best_of_rows` and the functions that end in `entry`: see entries.py.
"""

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled.build import float64s, floats, inlined, int32s, int64s, struct_at
from glassformer.decode.beam import Beam, Candidates
from glassformer.decode.decoder import Ids, Values
from glassformer.decode.loops import advance, beam_at, candidates_at
from glassformer.engine.forward import decode, encode, project, take_best, write_logits
from glassformer.engine.kernels import Address, Struct
from glassformer.engine.memory import BATCH, MEMORY, MODEL
from glassformer.engine.sizes import KEYS, PLACE
from glassformer.engine.vector import wait_for_all

model_at, memory_at, batch_at = struct_at(MODEL), struct_at(MEMORY), struct_at(BATCH)


@inlined
def descend(batch: Struct, s: int, width: int, position: int, parents: NDArray[np.int32]) -> None:
    """Extend hypothesis parents[w] of sentence s by a token at `position`, as hypothesis w.

    A hypothesis lists the slots of its tokens. Keys and values themselves are never copied. It goes
    on in the page of its parent, and siblings take the pages of hypotheses that nothing continues:
    so a page holds one line of descent, and those of lines that died out are free.
    """
    n = batch.n_positions
    own = int32s(batch.slots + 4 * s * width * n, width * n)
    current = int32s(batch.current + 4 * s * width, width)
    spare = int32s(batch.spare, width * n)
    moved = False
    for w in range(width):
        moved |= parents[w] != w
    if moved:
        for w in range(width):
            for i in range(position):
                spare[w * n + i] = own[parents[w] * n + i]
        for i in range(width * n):
            own[i] = spare[i]
        for w in range(width):
            spare[w], spare[width + w] = current[w], 0  # pages before, and whether they are taken
        for w in range(width):
            current[w] = -1
            if spare[width + parents[w]] == 0:
                current[w], spare[width + parents[w]] = spare[parents[w]], 1
        free = 0
        for w in range(width):
            if current[w] < 0:
                while spare[width + free]:
                    free += 1
                current[w], spare[width + free] = spare[free], 1
    for w in range(width):
        own[w * n + position] = current[w] + position % KEYS


@inlined
def fill_rows(batch: Struct, beam: Beam, bos: int, width: int) -> int:
    """Write the rows of the next step of all live sentences, and return how many there are.

    In the first step, with the begin mark `bos` ≥ 0, a sentence has one row.
    """
    n_rows = beam.n_live[0] * width
    tokens, places = int64s(batch.tokens, n_rows), int64s(batch.places, n_rows * PLACE)
    n = batch.n_positions
    slots = int32s(batch.slots, batch.n_sentences * batch.n_hypotheses * n)
    for r in range(n_rows):
        s, h = beam.live[r // width], r % width
        position = beam.length[s]
        tokens[r] = bos if bos >= 0 else beam.tokens[s, position - 1, h]
        places[PLACE * r] = s
        places[PLACE * r + 1] = position
        places[PLACE * r + 3] = s * batch.n_hypotheses + h
        places[PLACE * r + 2] = slots[places[PLACE * r + 3] * n + position]
    return n_rows


@inlined
def advance_rows(
    w: Struct, b: Struct, batch: Struct, n_rows: int, n_steps: int, bos: int, beam: Beam,
    values: Values, ids: Ids, eos: int, alpha: float, candidates: Candidates,
) -> None:  # fmt: skip
    """Score the next token of each row; with `n_steps`, go on as a beam search does.

    `bos` ≥ 0 is the begin mark, if it has not been read yet. Every thread of a team calls this
    function; the first one alone chooses.
    """
    for _ in range(max(n_steps, 1)):
        width = 1 if bos >= 0 else beam.log_probs.shape[1]
        if n_steps:
            if b.thread == 0 and bos < 0:
                for i in range(beam.n_live[0]):
                    s = beam.live[i]
                    descend(batch, s, width, beam.length[s], beam.parents[s, beam.length[s] - 1])
            if b.n_threads > 1:
                wait_for_all(b.counter, b.n_threads)
            n_rows = fill_rows(batch, beam, bos, width)
            bos = -1
            if n_rows == 0:
                return
        decode(w, b, batch, n_rows)
        project(w, b, n_rows)
        if n_steps and b.thread == 0:
            for i in range(beam.n_live[0]):
                s = beam.live[i]
                totals = candidates.log_probs[s]
                totals[:] = -np.inf
                for h in range(width):
                    before = beam.log_probs[s, h]
                    r = i * width + h
                    take_best(w, b, r, beam.banned, values[i, h], ids[i, h], before, totals)
                for h in range(width, values.shape[1]):
                    values[i, h, :] = -np.inf
            advance(beam, values, ids, eos, alpha, candidates)


def encode_entry(
    model: Address, memory: Address, batch: Address, first: int, ids: Address, starts: Address,
    n_sentences: int,
) -> None:  # fmt: skip
    """`encode` for Python."""
    begins = int64s(starts, n_sentences + 1)
    listed = int64s(ids, begins[n_sentences])
    encode(model_at(model), memory_at(memory), batch_at(batch), first, listed, begins)


def advance_rows_entry(
    model: Address, memory: Address, batch: Address, n_rows: int, n_steps: int, bos: int,
    search: Address, values: Address, ids: Address, k: int, eos: int, alpha: float,
) -> None:  # fmt: skip
    """`advance_rows` for Python: `values` and `ids` have k places for each row of the batch."""
    b = batch_at(batch)
    shape = n_rows // b.n_hypotheses, b.n_hypotheses, k
    advance_rows(
        model_at(model), memory_at(memory), b, n_rows, n_steps, bos, beam_at(search),
        floats(values, shape), int64s(ids, shape), eos, alpha, candidates_at(search),
    )  # fmt: skip


def best_of_rows(
    model: Address, memory: Address, n_rows: int, banned: Address, n_banned: int, k: int,
    values: Address, ids: Address,
) -> None:  # fmt: skip
    """Write the k best tokens of each row, and their log-probabilities."""
    w, b, nothing = model_at(model), memory_at(memory), float64s(values, n_banned - n_banned)
    best, found = floats(values, (n_rows, k)), int64s(ids, (n_rows, k))
    hidden = int64s(banned, n_banned)
    for r in range(n_rows):
        take_best(w, b, r, hidden, best[r], found[r], 0.0, nothing)


def write_logits_entry(
    model: Address, memory: Address, n_rows: int, out: Address, stride: int
) -> None:
    """`write_logits` for Python."""
    write_logits(model_at(model), memory_at(memory), n_rows, out, stride)
