"""A model of the compiled engine: checked, packed, and ready to be called."""

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled.structs import address, struct
from glassformer.config import ModelSettings
from glassformer.engine.checks import Tensors
from glassformer.engine.decoding import CompiledDecoding
from glassformer.engine.entries import ENCODE, WRITE_LOGITS, warm_up
from glassformer.engine.layout import pack
from glassformer.engine.memory import BATCH, MEMORY, MODEL, rounded_up
from glassformer.engine.positions import PositionTables, positions_of
from glassformer.engine.shapes import FIRST_LAYER, has_decoder, has_encoder, sizes_of
from glassformer.engine.sizes import BLOCK, CHUNK, KEYS, ROWS
from glassformer.engine.threads import in_parts, is_machine_busy, together, usable_cores
from glassformer.errors import InputError

# Source tokens that go through the encoder at once: enough that weights are read seldom, few
# enough that the rows of a layer stay in the second-level cache.
GROUP = 128
# Weights of a step from which threads share one sentence. Below, waiting for each other at every
# product costs more than a second core gains (`glassformer bench decode`).
SHARED_FROM = 8_000_000
TILE_ROWS = 4  # rows from which a product is limited by arithmetic, not by reading weights
FIRST_TABLE = 64  # positions of a table at first
KEPT_SIZE = 1_024  # rows or positions of a workspace that is kept: above, calls are rare
LONGEST = 32_768  # tokens of a text: the memory of attention scores grows with it
Size = tuple[int, int, int]  # rows, logits and positions of a workspace


class Workspace:
    """Memory for the rows of one call, one set of buffers for each thread of a team."""

    def __init__(
        self, model: "CompiledModel", n_rows: int, n_logits: int, longest: int, team_size: int
    ) -> None:
        s = model.settings
        self.size, self.n_rows, self.team_size = (n_rows, n_logits, longest), n_rows, team_size
        matrices, width = model.packed.matrices, model.key_width
        d, widest = rounded_up(s.d_model, 4), int(matrices[FIRST_LAYER:, 2].max())
        hidden, narrow = rounded_up(s.d_ff, 4), rounded_up(s.d_model, BLOCK)
        quantised, scores = rounded_up(int(matrices[:, 3].max()), 64), rounded_up(longest, 16)
        outputs = int(matrices[model.struct["output"][0], 2])
        self._kept: list[NDArray[np.generic]] = []  # what the addresses are of
        self.tables: PositionTables | None = None  # likewise

        def take(*shape: int, dtype: type = np.float32) -> int:
            self._kept.append(np.zeros(shape, dtype))
            return self._kept[-1].ctypes.data

        self.log_sum = np.empty(n_logits, np.float32)
        self.outputs = [np.zeros((n_rows, d), np.float32) for _ in range(team_size)]
        shared = {
            "n_threads": team_size,
            "counter": take(16, dtype=np.int64),
            "row": d,
            "wide": take(n_rows, widest),
            "wide_row": widest,
            "narrow": take(n_rows, narrow),
            "narrow_row": narrow,
            "hidden_row": hidden,
            "quantised_row": quantised,
            "scores_row": scores,
            "n_blocks": outputs // BLOCK,
            "block_max": take(n_logits, outputs // BLOCK),
            "chunk_max": take(n_logits, -(-outputs // BLOCK // CHUNK)),
            "chunk_sum": take(n_logits, -(-outputs // BLOCK // CHUNK)),
            "log_sum": self.log_sum.ctypes.data,
        }
        self.structs = [
            struct(
                MEMORY,
                thread=i,
                x=take(n_rows, d),
                y=self.outputs[i].ctypes.data,
                hidden=take(n_rows, hidden),
                quantised=take(n_rows, quantised, dtype=np.uint8),
                x_scale=take(n_rows),
                scores=take(max(s.n_heads, ROWS), scores),
                found=take(s.n_heads, KEYS),
                keys=take(rounded_up(longest, KEYS), width),
                values=take(longest, width),
                rotated=take(width),
                logits=take(n_logits, CHUNK * BLOCK),
                block=take(BLOCK),
                tops=take(outputs // BLOCK),
                **shared,
            )
            for i in range(team_size)
        ]
        self.addresses = [address(one) for one in self.structs]

    def fits(self, n_rows: int, n_logits: int, longest: int) -> bool:
        asked = n_rows, n_logits, longest
        return all(own >= need for own, need in zip(self.size, asked, strict=True))


class WorkspacePool:
    """Workspaces that calls gave back, for the next ones.

    A new workspace is as large as any call before needed, so that encoder and decoder share it.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity  # workspaces for each size of a team
        self._spare: dict[int, list[Workspace]] = {}
        self._needed: Size = (1, 1, 1)

    def borrow(self, model: "CompiledModel", size: Size, team_size: int) -> Workspace:
        """Return a workspace that is large enough."""
        spare = self._spare.setdefault(team_size, [])
        while spare:
            try:
                workspace = spare.pop()
            except IndexError:  # another thread was faster
                break
            if workspace.fits(*size):
                return workspace
        if max(size) <= KEPT_SIZE:
            rows, logits, longest = map(max, size, self._needed)
            size = self._needed = rows, logits, longest
        return Workspace(model, *size, team_size)

    def give_back(self, workspace: Workspace) -> None:
        spare = self._spare[workspace.team_size]
        if len(spare) < self._capacity and max(workspace.size) <= KEPT_SIZE:
            spare.append(workspace)


class CompiledModel:
    """A translator, language model, classifier or tagger, computed by compiled code.

    It may be used by several threads at once. As a `Decoder` it serves `decode.search`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        weights: Tensors,
        *,
        int8: bool | None = None,
        threads: int | None = None,
    ) -> None:
        warm_up()
        self.settings, self.kind = settings, settings.kind
        self.threads = threads or usable_cores()
        self.packed = pack(settings, weights, int8)
        self.struct = struct(MODEL, **sizes_of(settings), **self.packed.addresses())
        self.address = address(self.struct)
        n_kv_heads = settings.n_kv_heads or settings.n_heads
        self.key_width = n_kv_heads * (settings.d_model // settings.n_heads)  # of a token
        learned = [f"{stack}.positions.weight" for stack in ("encoder", "decoder")]
        self._tables = {name: np.array(weights[name]) for name in learned if name in weights}
        self._positions: dict[str, tuple[int, PositionTables]] = {}
        self.pool = WorkspacePool(self.threads)
        self.pad_id, self.vocab_size = settings.pad_id, settings.vocab_size
        self.reads_source = settings.kind == "translator"
        limit = settings.max_positions if settings.positions == "learned" else None
        self.max_target = limit if has_decoder(settings) else None
        self.max_source = limit if has_encoder(settings) else None
        self.step_weights = self._count_step_weights()

    def _count_step_weights(self) -> int:
        """Return the weights that one step of the decoder reads."""
        sizes = self.packed.matrices[:, 2] * self.packed.matrices[:, 3]
        first = "decoder" if has_decoder(self.settings) else "encoder"
        return int(sizes[self.struct[first][0] :].sum() + sizes[self.struct["output"][0]])

    def team_size(self, n_rows: int) -> int:
        """Return the number of threads that work together on so many rows."""
        if self.step_weights < SHARED_FROM or n_rows >= TILE_ROWS * self.threads:
            return 1
        return 1 if is_machine_busy() else self.threads

    def parts(self, batch: int, width: int) -> int:
        """Return the number of threads that search parts of a batch, each for itself."""
        if self.team_size(batch * width) > 1:
            return 1
        return min(self.threads, batch)

    def alone(self) -> "CompiledModel":
        """Return the same model with one thread: for one of several parts of a batch."""
        if self.threads == 1:
            return self
        model = copy(self)
        model.threads = 1
        return model

    def set_positions(self, memory: Workspace, stack: str, n: int) -> None:
        """Point `memory` at tables of at least `n` positions, made once and extended as needed."""
        if self.settings.positions == "learned":
            n = min(n, self.settings.max_positions)  # a cache has room for more than there are
        known = self._positions.get(stack)
        if known is None or known[0] < n:
            size = max(n, 2 * known[0] if known else FIRST_TABLE)
            if self.settings.positions == "learned":
                size = self.settings.max_positions
            known = self._positions[stack] = (
                size,
                positions_of(self.settings, self._tables, size, stack),
            )
        addresses = known[1].addresses()
        for one in memory.structs:
            one["n_positions"] = known[0]
            for name, place in addresses.items():
                one[name] = place
        memory.tables = known[1]

    def borrow(self, n_rows: int, n_logits: int, longest: int, team_size: int) -> Workspace:
        """Return memory for a call; `give_back` returns it."""
        return self.pool.borrow(self, (n_rows, n_logits, longest), team_size)

    def give_back(self, workspace: Workspace) -> None:
        self.pool.give_back(workspace)

    def start(
        self, sources: Sequence[Sequence[int]] | None, batch: int, width: int, max_length: int
    ) -> CompiledDecoding:
        """Encode the sources and return the decoding of a batch: see decode/decoder.py."""
        if sources is not None:
            self.check_sources(sources)
        check_length(max_length)
        return CompiledDecoding(self, sources, batch, width, max_length)

    def check_sources(self, rows: Sequence[Sequence[int]]) -> None:
        size = self.settings.vocab_size
        if self.reads_source and not self.settings.tie_source_target:
            size = self.settings.source_vocab_size or size
        for row in rows:
            check_length(len(row))
            check_ids(np.asarray(row), size)
            if not len(row):
                raise InputError(
                    "A source is empty.",
                    "Attention needs at least one token to attend to.",
                    "Give an empty sentence its end-of-sentence token, or leave it out.",
                )
            if self.max_source is not None and len(row) > self.max_source:
                raise InputError(
                    f"A source has {len(row)} tokens.",
                    f"The model has learned {self.max_source} positions.",
                    "Give it in shorter pieces.",
                )

    def check_target(self, ids: NDArray[np.int64]) -> None:
        check_ids(ids, self.vocab_size)

    def read(
        self,
        sources: Sequence[Sequence[int]],
        starts: NDArray[np.int64],
        team_size: int,
        batch: NDArray[Any],
    ) -> None:
        """Write the keys and values of cross-attention to those of a batch."""
        for _ in self._encoded(sources, starts, team_size, batch):
            pass

    def encode(self, rows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Return the encoder's output for each text, (length, D); parts of them on each thread."""
        self.check_sources(rows)
        parts = in_parts(self._encode_part, rows, [len(row) for row in rows], self.threads)
        return [output for part in parts for output in part]

    def _encode_part(self, rows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        found: list[NDArray[np.float32]] = []
        for group, output in self._encoded(rows, starts, 1, struct(BATCH)):
            found += [output[a:b].copy() for a, b in pairwise(group)]
        return found

    def _encoded(
        self,
        sources: Sequence[Sequence[int]],
        starts: NDArray[np.int64],
        team_size: int,
        batch: NDArray[Any],
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Encode groups of whole sources; yield where each begins and the output of the group."""
        longest = int(np.diff(starts).max(initial=1))
        n_rows = min(int(starts[-1]), max(GROUP, longest))
        workspace = self.borrow(n_rows, 1, longest, team_size)
        self.set_positions(workspace, "encoder", longest)
        begin = 0
        while begin < len(sources):
            end = begin + 1
            while end < len(sources) and starts[end + 1] - starts[begin] <= workspace.n_rows:
                end += 1
            group = starts[begin : end + 1] - starts[begin]
            ids = np.concatenate([np.asarray(source, np.int64) for source in sources[begin:end]])

            def work(i: int, first: int = begin, group: Any = group, ids: Any = ids) -> None:
                ENCODE(
                    self.address, workspace.addresses[i], address(batch), first, address(ids),
                    address(group), len(group) - 1,
                )  # fmt: skip

            together(work, team_size)
            yield group, workspace.outputs[0][:, : self.settings.d_model]
            begin = end
        self.give_back(workspace)

    def tag(self, rows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Return the logits of every position of each text, (length, C)."""
        return [self._output(features) for features in self.encode(rows)]

    def classify(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the logits of each text, (B, C)."""
        return self._output(self._pooled(rows))

    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vector of each text, (B, D)."""
        vectors = self._pooled(rows)
        if self.settings.unit_length:  # row by row: a text's bits do not depend on the batch
            lengths = [max(float(np.sqrt((v * v).sum())), 1e-12) for v in vectors]
            vectors /= np.array(lengths, np.float32)[:, None]
        return vectors

    def _pooled(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        return np.stack([self._pool(features) for features in self.encode(rows)])

    def _pool(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.settings.pooling == "first":
            return features[0]
        return features.max(0) if self.settings.pooling == "max" else features.mean(0)

    def _output(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Multiply rows by the output matrix."""
        n_rows = len(features)
        workspace = self.borrow(n_rows, 1, 1, 1)
        workspace.outputs[0][:n_rows, : self.settings.d_model] = features
        logits = self.logits(workspace, n_rows)
        self.give_back(workspace)
        return logits

    def logits(self, workspace: Workspace, n_rows: int) -> NDArray[np.float32]:
        """Return the logits of rows that the encoder or the decoder has left in a workspace."""
        matrix = int(self.struct["output"][0])
        out = np.empty((n_rows, int(self.packed.matrices[matrix, 2])), np.float32)
        WRITE_LOGITS(self.address, workspace.addresses[0], n_rows, address(out), out.shape[1])
        labelled = self.kind in ("classifier", "tagger")
        return out[:, : self.settings.n_classes if labelled else self.vocab_size]


def check_length(n: int) -> None:
    if n > LONGEST:
        raise InputError(
            f"A text of {n:,} tokens was given.",
            f"The engine takes up to {LONGEST:,}: memory and time grow with the square of it.",
            "Give it in shorter pieces.",
        )


def check_ids(ids: NDArray[np.generic], vocab_size: int) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= vocab_size):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(
            f"Token id {int(wrong)} is outside the vocabulary.",
            f"The model has {vocab_size} entries: ids run from 0 to {vocab_size - 1}.",
            "Use the tokenizer that was trained with this model.",
        )
