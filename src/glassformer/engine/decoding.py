"""Decoding of a batch: memory for keys and values, rows of a step, and the loop of a search."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled.structs import address, struct
from glassformer.decode.beam import SEARCH, Beam, Candidates, search_struct
from glassformer.engine.entries import ADVANCE_ROWS, BEST_OF_ROWS
from glassformer.engine.memory import BATCH, rounded_up
from glassformer.engine.sizes import KEYS, PLACE
from glassformer.engine.threads import together
from glassformer.errors import InputError

if TYPE_CHECKING:
    from glassformer.engine.model import CompiledModel, Workspace

# Multiply-adds between two checks for Ctrl-C, some 10 ms to 100 ms.
WORK_PER_CALL = 2_000_000_000
FIRST_POSITIONS = 32  # first capacity of the table of slots; it doubles when full
Ids = NDArray[np.int64]
Values = NDArray[np.float32]
NO_SEARCH = struct(SEARCH)  # for a call that takes no step of a search


class CompiledScores:
    """Scores of the rows of one step, read from the workspace of the step."""

    def __init__(self, model: "CompiledModel", memory: "Workspace", shape: tuple[int, ...]) -> None:
        self._model, self._memory, self._shape = model, memory, shape
        self._n_rows = shape[0] * shape[1]

    def top(self, k: int, banned: Sequence[int] = ()) -> tuple[Values, Ids]:
        """Return the k best of each row: see decode/decoder.py."""
        values = np.empty((self._n_rows, k), np.float32)
        ids = np.empty((self._n_rows, k), np.int64)
        model, memory = self._model.address, self._memory.addresses[0]
        hidden = np.array(banned, np.int64)
        listed = address(hidden), len(hidden)
        BEST_OF_ROWS(model, memory, self._n_rows, *listed, k, address(values), address(ids))
        return values.reshape(*self._shape, k), ids.reshape(*self._shape, k)

    def rows(self) -> Values:
        """Return all log-probabilities: see decode/decoder.py."""
        logits = self._model.logits(self._memory, self._n_rows)
        log_probs: Values = logits - self._memory.log_sum[: self._n_rows, None]
        return log_probs.reshape(*self._shape, -1)


class Sources:
    """Memory for the keys and values of cross-attention of a batch."""

    def __init__(self, model: "CompiledModel", sources: Sequence[Sequence[int]]) -> None:
        lengths = np.array([len(source) for source in sources], np.int64)
        self.longest = int(lengths.max(initial=0))
        self.starts, self.block_starts = (np.zeros(len(sources) + 1, np.int64) for _ in range(2))
        np.cumsum(lengths, out=self.starts[1:])
        np.cumsum(-(-lengths // KEYS), out=self.block_starts[1:])
        layers, width = model.settings.decoder_layers, model.key_width
        self.keys = np.empty((layers, int(self.block_starts[-1]), width * KEYS), np.float32)
        self.values = np.empty((layers, int(self.starts[-1]), width), np.float32)

    def struct(self) -> NDArray[Any]:
        """Return a BATCH that has these sources."""
        return struct(
            BATCH,
            cross_keys=self.keys.ctypes.data,
            cross_values=self.values.ctypes.data,
            cross_blocks=self.keys.shape[1],
            cross_rows=self.values.shape[1],
            starts=self.starts.ctypes.data,
            block_starts=self.block_starts.ctypes.data,
        )


class Pages:
    """Memory for the keys and values of the target, in pages of 16 positions.

    As much is reserved as hypotheses that never share a token would need. The system gives memory
    to the pages that are written to, and the first ones are taken first.
    """

    def __init__(self, model: "CompiledModel", n_pages: int) -> None:
        self.rows = model.settings.decoder_layers * 2 * KEYS  # of a page
        self.memory = np.empty((n_pages, self.rows, model.key_width), np.float32)
        self._in_use = np.zeros(n_pages, np.bool_)

    def keep(self, slots: NDArray[np.int32]) -> None:
        """Free every page that has none of these slots."""
        self._in_use[:] = False
        self._in_use[slots // self.rows] = True

    def take(self, *shape: int) -> NDArray[np.intp]:
        """Return the first slots of free pages."""
        pages = np.flatnonzero(~self._in_use)[: prod(shape)]
        self._in_use[pages] = True
        return pages.reshape(shape) * self.rows


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
        self.sources = Sources(model, sources or ())
        self.pages = Pages(model, batch * width * -(-self.most // KEYS))
        self.current = np.zeros((batch, width), np.int32)  # slots of the pages that are written to
        self.slots = np.zeros((batch, width, 0), np.int32)  # of the tokens of each hypothesis
        self.batch = self.sources.struct()
        self._reserve(min(self.most, FIRST_POSITIONS))
        if sources:
            model.read(sources, self.sources.starts, self.team_size, self.batch)

    def _reserve(self, n_positions: int) -> None:
        """Make the table of slots large enough for `n_positions`."""
        batch, width, before = self.slots.shape
        if n_positions <= before:
            return
        n_positions = rounded_up(n_positions, KEYS)
        slots = np.zeros((batch, width, n_positions), np.int32)
        slots[..., :before] = self.slots
        self.slots, self.spare = slots, np.empty((width, n_positions), np.int32)
        changed = {
            "n_sentences": batch,
            "n_positions": n_positions,
            "n_hypotheses": width,
            "pages": address(self.pages.memory),
            "current": address(self.current),
            "slots": address(slots),
            "spare": address(self.spare),
        }
        for name, value in changed.items():
            self.batch[name] = value

    def _begin_block(self) -> None:
        """Give each hypothesis a page for the next 16 positions, where a block begins.

        Pages that no hypothesis refers to any more are used again.
        """
        if self.length % KEYS:
            return
        self.pages.keep(self.slots[self.rows, :, : self.length])
        self.current[self.rows] = self.pages.take(len(self.rows), self.width)
        self.slots[self.rows, :, self.length] = self.current[self.rows]

    def prefill(self, ids: Ids) -> CompiledScores:
        batch, n = ids.shape
        self._check(ids, len(self.rows), n, n)
        for self.length in range(0, n, KEYS):
            self._begin_block()
            end = min(n, self.length + KEYS)
            lanes = np.arange(end - self.length)
            self.slots[self.rows, 0, self.length : end] = self.current[self.rows, :1] + lanes
        places = np.zeros((batch, n, PLACE), np.int64)
        places[..., 0], places[..., 1] = self.rows[:, None], np.arange(n)
        places[..., 2] = self.slots[self.rows, 0, :n]
        places[..., 3] = self.rows[:, None] * self.width
        self.length = n
        return self._score(ids, places)

    def _check(self, ids: Ids, n_rows: int, width: int, length: int) -> None:
        """Raise InputError on input for which compiled code would write outside its memory."""
        self.model.check_target(ids)
        most = min(self.most, self.model.max_target or self.most)
        if ids.shape != (n_rows, width) or length > most:
            raise InputError(
                f"Tokens of shape {ids.shape} were given, up to position {length}.",
                f"The decoding has {n_rows} sentences, {width} tokens each, {most} positions.",
                "Start it with a larger max_length or width.",
            )
        self._reserve_for(length)

    def step(self, tokens: Ids, parents: Ids | None = None) -> CompiledScores:
        batch, width = tokens.shape
        self._check(tokens, len(self.rows), self.width, self.length + 1)
        if parents is not None and (parents.min() < 0 or parents.max() >= self.width):
            raise InputError(
                f"A token continues hypothesis {int(parents.max())} of {self.width}.",
                "Hypotheses are numbered from 0.",
                "Give parents of the step before.",
            )
        if parents is not None:
            self.slots[self.rows] = self.slots[self.rows[:, None], parents]
        self._begin_block()
        position = self.length
        self.slots[self.rows, :, position] = self.current[self.rows] + position % KEYS
        places = np.empty((batch, width, PLACE), np.int64)
        places[..., 0], places[..., 1] = self.rows[:, None], position
        places[..., 2] = self.slots[self.rows, :, position]
        places[..., 3] = self.rows[:, None] * self.width + np.arange(width)
        self.length += 1
        return self._score(tokens, places)

    def _score(self, tokens: Ids, places: Ids) -> CompiledScores:
        rows = tokens.reshape(-1), places.reshape(-1, PLACE)
        memory = self._call(tokens.size, *rows, 0, -1, NO_SEARCH, 0, 0, 0.0)
        return CompiledScores(self.model, memory, tokens.shape)

    @property
    def longest(self) -> int:
        """Keys that a query may have."""
        return max(self.slots.shape[2], self.sources.longest)

    def _reserve_for(self, n_positions: int) -> None:
        capacity = self.slots.shape[2]
        if n_positions > capacity:
            self._reserve(min(self.most, max(n_positions, 2 * capacity)))

    def run(
        self,
        beam: Beam,
        bos: int,
        eos: int,
        alpha: float,
        candidates: Candidates,
    ) -> None:
        """Take steps of a beam search: see decode/decoder.py."""
        n_live = int(beam.n_live[0])
        if not n_live:
            return
        n_rows, begin = n_live * self.width, int(beam.length[beam.live[0]])
        n_steps = max(1, WORK_PER_CALL // (n_rows * self.model.step_weights))
        self._reserve_for(begin + 1)
        begin_mark = bos if self.length == 0 else -1
        self.length = begin  # after a prefix, its last token is read again
        self._begin_block()
        n_steps = min(n_steps, KEYS - begin % KEYS, self.slots.shape[2] - begin)
        tokens, places = np.empty(n_rows, np.int64), np.empty((n_rows, PLACE), np.int64)
        k, search = candidates.tokens.shape[1], search_struct(beam, candidates)
        self._call(n_rows, tokens, places, n_steps, begin_mark, search, k, eos, alpha)
        self.rows = beam.live[: beam.n_live[0]].copy()
        self.length = int(beam.length[self.rows[0]]) if len(self.rows) else 0

    def _call(
        self, n_rows: int, tokens: Ids, places: Ids, n_steps: int, bos: int,
        search: NDArray[Any], k: int, eos: int, alpha: float,
    ) -> "Workspace":  # fmt: skip
        memory = self._fit(n_rows)
        self.model.set_positions(memory, "decoder", self.slots.shape[2])
        tokens, places = np.ascontiguousarray(tokens), np.ascontiguousarray(places)
        values, ids = np.empty((n_rows, k), np.float32), np.empty((n_rows, k), np.int64)

        def work(i: int) -> None:
            mine = (tokens, places) if i == 0 else (tokens.copy(), places.copy())
            batch = self.batch.copy()
            batch["tokens"], batch["places"] = map(address, mine)
            ADVANCE_ROWS(
                self.model.address, memory.addresses[i], address(batch), n_rows, n_steps, bos,
                address(search), address(values), address(ids), k, eos, alpha,
            )  # fmt: skip

        together(work, self.team_size)
        return memory

    def _fit(self, n_rows: int) -> "Workspace":
        """Return a workspace for `n_rows`."""
        size = n_rows, n_rows, self.longest
        if self.memory is None or not self.memory.fits(*size):
            self.memory = self.model.borrow(*size, self.team_size)
        return self.memory

    def __del__(self) -> None:
        if self.memory is not None:
            self.model.give_back(self.memory)

    def keep(self, sentences: Ids) -> None:
        self.rows = self.rows[sentences]
