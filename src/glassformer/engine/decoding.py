"""A batch on its way from its sources to its answers: memory, rows, and the loop of a search."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled import compiled, inlined
from glassformer.decode.beam import Beam, Candidates, advance
from glassformer.decode.beam import scratch as candidates_of
from glassformer.decode.beam import start as start_beam
from glassformer.engine.forward import PLACE, decode, project, take_best
from glassformer.engine.kernels import Struct
from glassformer.engine.memory import BATCH, struct
from glassformer.engine.threads import together
from glassformer.engine.vector import int32s, int64s, wait_for_all

if TYPE_CHECKING:
    from glassformer.engine.model import CompiledModel, Workspace

FIRST_POSITIONS = 32  # that the cache has at first; it doubles when they are full
Ids = NDArray[np.int64]
Values = NDArray[np.float32]


@inlined
def descend(batch: Struct, s: int, width: int, position: int, parents: NDArray[np.int32]) -> None:
    """Let hypothesis w of sentence s continue hypothesis parents[w] with a token at `position`.

    The keys and values of that token are kept in row (s · positions + position) · W + w. A
    hypothesis lists the rows of its ancestors: keys and values themselves are never copied.
    """
    n = batch.n_positions
    own = int32s(batch.ancestors + 4 * s * width * n, width * n)
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
        own[w * n + position] = (s * n + position) * width + w


@inlined
def fill_rows(batch: Struct, beam: Beam) -> int:
    """Write the rows of the next step of all live sentences, and return how many there are."""
    width = beam.log_probs.shape[1]
    n_rows = beam.n_live[0] * width
    tokens, places = int64s(batch.tokens, n_rows), int64s(batch.places, n_rows * PLACE)
    for r in range(n_rows):
        s, w = beam.live[r // width], r % width
        position = beam.length[s]
        tokens[r] = beam.tokens[s, position - 1, w]
        places[PLACE * r] = s
        places[PLACE * r + 1] = position
        places[PLACE * r + 2] = (s * batch.n_positions + position) * width + w
        places[PLACE * r + 3] = s * width + w
    return n_rows


@compiled
def advance_rows(
    w: Struct, b: Struct, batch: Struct, n_rows: int, n_steps: int, beam: Beam, values: Values,
    ids: Ids, eos: int, alpha: float, candidates: Candidates,
) -> None:  # fmt: skip
    """Score the next token of each row; with `n_steps`, go on as a beam search does.

    Every thread of a team calls it; the first one alone chooses.
    """
    width = beam.log_probs.shape[1]
    for _ in range(max(n_steps, 1)):
        if n_steps:
            if b.thread == 0:
                for i in range(beam.n_live[0]):
                    s = beam.live[i]
                    descend(batch, s, width, beam.length[s], beam.parents[s, beam.length[s] - 1])
            if b.n_threads > 1:
                wait_for_all(b.counter, b.n_threads)
            n_rows = fill_rows(batch, beam)
            if n_rows == 0:
                return
        decode(w, b, batch, n_rows)
        project(w, b, n_rows)
        if n_steps and b.thread == 0:
            for r in range(n_rows):
                i, h = r // width, r % width
                take_best(b, r, beam.banned, values[i, h], ids[i, h])
            advance(beam, values, ids, eos, alpha, candidates)


class CompiledScores:
    """Scores of the rows of one step, in the decoding's own memory."""

    def __init__(self, memory: "Workspace", shape: tuple[int, ...], vocab_size: int) -> None:
        self._memory, self._shape, self._vocab_size = memory, shape, vocab_size
        self._n_rows = shape[0] * shape[1]

    def top(self, k: int, banned: Sequence[int] = ()) -> tuple[Values, Ids]:
        """Return the k best of each row: see decode/decoder.py."""
        values = np.empty((self._n_rows, k), np.float32)
        ids = np.empty((self._n_rows, k), np.int64)
        best_of_rows(self._memory.structs[0][0], self._n_rows, np.array(banned, np.int64), values, ids)
        return values.reshape(*self._shape, k), ids.reshape(*self._shape, k)

    def rows(self) -> Values:
        """Return all log-probabilities: see decode/decoder.py."""
        n = self._n_rows
        logits = self._memory.values[:n, : self._vocab_size]
        log_probs: Values = logits - self._memory.log_sum[:n, None]
        return log_probs.reshape(*self._shape, -1)


@compiled
def best_of_rows(b: Struct, n_rows: int, banned: Ids, values: Values, ids: Ids) -> None:
    """Write the best tokens of each row."""
    for r in range(n_rows):
        take_best(b, r, banned, values[r], ids[r])


class CompiledDecoding:
    """A `Decoding` of the compiled engine: see decode/decoder.py."""

    def __init__(
        self,
        model: "CompiledModel",
        sources: Sequence[Sequence[int]] | None,
        batch: int,
        width: int,
        max_length: int,
    ) -> None:
        self.model, self.width, self.most = model, width, max_length + 1
        self.memory: Workspace | None = None
        self.rows = np.arange(batch)  # the sentences of the current batch
        self.length = 0  # positions that are filled
        self.team_size = model.team_size(batch * width)
        lengths = [len(source) for source in sources or ()]
        self.starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=self.starts[1:])
        self.source_rows = np.arange(self.starts[-1], dtype=np.int32)
        self.cross = model.read(sources, self.starts, self.team_size) if sources else np.zeros(
            (model.settings.decoder_layers, 0, model.kv_row), np.float32
        )  # fmt: skip
        self.own = np.empty((model.settings.decoder_layers, 0, model.kv_row), np.float32)
        self.ancestors = np.empty((batch * width, 0), np.int32)
        self._reserve(min(self.most, FIRST_POSITIONS))

    def _reserve(self, n_positions: int) -> None:
        """Make place for so many positions."""
        batch, width = len(self.ancestors) // self.width, self.width
        before = self.ancestors.shape[1]
        if n_positions <= before:
            return
        layers, _, kv_width = self.own.shape
        own = np.empty((layers, batch, n_positions * width, kv_width), np.float32)
        own[:, :, : before * width] = self.own.reshape(layers, batch, -1, kv_width)
        ancestors = np.zeros((batch * width, n_positions), np.int32)
        # Rows are numbered by capacity: sentence b's begin at b · capacity · W.
        moved = np.arange(batch).repeat(width)[:, None] * ((n_positions - before) * width)
        ancestors[:, :before] = self.ancestors + moved
        self.own, self.ancestors = own.reshape(layers, -1, kv_width), ancestors
        self._spare = np.empty((width, n_positions), np.int32)
        self.batch = struct(
            BATCH,
            own=self.own.ctypes.data,
            own_rows=self.own.shape[1],
            n_positions=n_positions,
            ancestors=ancestors.ctypes.data,
            spare=self._spare.ctypes.data,
            cross=self.cross.ctypes.data,
            cross_rows=self.cross.shape[1],
            starts=self.starts.ctypes.data,
            every=self.source_rows.ctypes.data,
        )

    def prefill(self, ids: Ids) -> CompiledScores:
        batch, n = ids.shape
        self.model.check_target(ids)
        self._reserve_for(n)
        capacity, width = self.ancestors.shape[1], self.width
        position = np.arange(n)
        row = (self.rows[:, None] * capacity + position) * width
        self.ancestors[self.rows * width, :n] = row
        places = np.empty((batch, n, PLACE), np.int64)
        places[..., 0] = self.rows[:, None]
        places[..., 1], places[..., 2] = position, row
        places[..., 3] = self.rows[:, None] * width
        self.length = n
        return self._score(ids, places)

    def step(self, tokens: Ids, parents: Ids | None = None) -> CompiledScores:
        batch, width = tokens.shape
        self.model.check_target(tokens)
        self._reserve_for(self.length + 1)
        capacity, position = self.ancestors.shape[1], self.length
        of = np.broadcast_to(np.arange(width), tokens.shape) if parents is None else parents
        own = self.ancestors.reshape(-1, width, capacity)
        seen = own[self.rows[:, None], of, :position]
        own[self.rows, :, :position] = seen
        row = (self.rows[:, None] * capacity + position) * width + np.arange(width)
        own[self.rows, :, position] = row
        places = np.empty((batch, width, PLACE), np.int64)
        places[..., 0], places[..., 1], places[..., 2] = self.rows[:, None], position, row
        places[..., 3] = self.rows[:, None] * width + np.arange(width)
        self.length += 1
        return self._score(tokens, places)

    def _score(self, tokens: Ids, places: Ids) -> CompiledScores:
        beam, candidates = NO_BEAM
        rows = tokens.reshape(-1), places.reshape(-1, PLACE)
        memory = self._call(tokens.size, *rows, 0, beam, 0, 0.0, candidates)
        return CompiledScores(memory, tokens.shape, self.model.vocab_size)

    @property
    def longest(self) -> int:
        """Keys that a query may have."""
        return max(self.ancestors.shape[1], int(np.diff(self.starts).max(initial=0)))

    def _reserve_for(self, n_positions: int) -> None:
        capacity = self.ancestors.shape[1]
        if n_positions > capacity:
            self._reserve(min(self.most, max(n_positions, 2 * capacity)))

    def run(self, beam: Beam, n_steps: int, eos: int, alpha: float, candidates: Candidates) -> None:
        """Take up to `n_steps` steps of a beam search without Python in between."""
        n_live = int(beam.n_live[0])
        if not n_live:
            return
        b = beam.live[0]
        begin = int(beam.length[b])
        self._reserve_for(min(begin + n_steps, self.most))
        n_rows, n_steps = n_live * self.width, min(n_steps, self.ancestors.shape[1] - begin)
        tokens, places = np.empty(n_rows, np.int64), np.empty((n_rows, PLACE), np.int64)
        self._call(n_rows, tokens, places, n_steps, beam, eos, alpha, candidates)
        self.rows = beam.live[: beam.n_live[0]].copy()
        self.length = int(beam.length[self.rows[0]]) if len(self.rows) else 0

    def _call(
        self, n_rows: int, tokens: Ids, places: Ids, n_steps: int, beam: Beam, eos: int,
        alpha: float, candidates: Candidates,
    ) -> "Workspace":  # fmt: skip
        memory = self._fit(n_rows)
        self.model.set_positions(memory, "decoder", self.ancestors.shape[1])
        tokens, places = np.ascontiguousarray(tokens), np.ascontiguousarray(places)
        k = candidates.tokens.shape[1]
        values = np.empty((n_rows // self.width, self.width, k), np.float32)
        ids = np.empty((n_rows // self.width, self.width, k), np.int64)

        def work(i: int) -> None:
            mine = (tokens, places) if i == 0 else (tokens.copy(), places.copy())
            batch = self.batch.copy()
            batch["tokens"], batch["places"] = (array.ctypes.data for array in mine)
            advance_rows(
                self.model.struct[0], memory.structs[i][0], batch[0], n_rows, n_steps, beam,
                values, ids, eos, alpha, candidates,
            )  # fmt: skip

        together(work, self.team_size)
        return memory

    def _fit(self, n_rows: int) -> "Workspace":
        """Return memory for so many rows."""
        size = n_rows, n_rows, self.longest, self.team_size
        if self.memory is None or not self.memory.fits(*size):
            self.memory = self.model.borrow(*size)
        return self.memory

    def __del__(self) -> None:
        if self.memory is not None:
            self.model.give_back(self.memory)

    def keep(self, sentences: Ids) -> None:
        self.rows = self.rows[sentences]


def _no_beam() -> tuple[Beam, Candidates]:
    """Return a beam of no sentence, for a call that takes no step of a search."""
    one = np.ones(1, np.int64)
    beam = start_beam(one, 1, 1, [0], np.zeros((1, 0), np.int64), np.zeros(1))
    return beam, candidates_of(1, 1)


NO_BEAM = _no_beam()
