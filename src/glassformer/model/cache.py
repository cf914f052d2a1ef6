"""The key-value cache: what one decoding step need not compute again.

Self-attention appends one step's keys and values to room that was reserved for them;
cross-attention's are those of the source and are full from the start. Rows that are done leave
both, which happens without gradients.
"""

from dataclasses import dataclass
from math import prod
from weakref import finalize

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.errors import InputError

SPARE: list[Tensor] = []  # pieces of memory that rooms were in
MOST = 1 << 27  # bytes of them all


class Room:
    """One piece of memory for the keys and values of all layers, handed out tensor by tensor.

    Two dozen smaller ones would each leave a hole, and many a hole is a little too small for what
    comes next. On CPU the piece is kept for the next batch: the system would give the same amount
    page by page, with zeros in it that nobody reads.
    """

    def __init__(self, like: Tensor, numbers: int) -> None:
        on_cpu = numbers and like.device.type == "cpu"
        self._left = _borrowed(like.dtype, numbers) if on_cpu else like.new_empty(numbers)

    def take(self, *shape: int) -> Tensor:
        taken, self._left = self._left.tensor_split([prod(shape)])
        return taken.view(shape)


def _borrowed(dtype: torch.dtype, numbers: int) -> Tensor:
    """Memory that is a spare again as soon as no tensor is left that looks at it."""
    n_bytes = numbers * dtype.itemsize
    try:
        piece = SPARE.pop()
    except IndexError:
        piece = torch.empty(0, dtype=torch.uint8)
    if len(piece) < n_bytes:
        piece = torch.empty(n_bytes, dtype=torch.uint8)
    lent = piece.numpy()[:n_bytes]
    finalize(lent, _give_back, piece).atexit = False
    return torch.frombuffer(lent, dtype=dtype)


def _give_back(piece: Tensor) -> None:
    if sum(map(len, SPARE)) + len(piece) <= MOST:
        SPARE.append(piece)


def let_spares_go() -> None:
    """The next room is taken from the system: for who wants to see how much that is."""
    SPARE.clear()


class KeyValueCache:
    """Keys and values of one attention, (B, G, capacity, K) each, of which `length` are filled."""

    def __init__(
        self, k: Float[Tensor, "B G C K"], v: Float[Tensor, "B G C K"], length: int
    ) -> None:
        self.k, self.v, self.length = k, v, length

    @classmethod
    def full(
        cls, k: Float[Tensor, "B G S K"], v: Float[Tensor, "B G S K"], room: Room
    ) -> "KeyValueCache":
        """Head by head in memory, since every step reads all of it."""
        k, v = (room.take(*x.shape).copy_(x) for x in (k, v))
        return cls(k, v, k.size(2))

    @classmethod
    def empty(cls, batch: int, heads: int, capacity: int, d_k: int, room: Room) -> "KeyValueCache":
        """For `capacity` positions."""
        k, v = (room.take(batch, heads, capacity, d_k) for _ in range(2))
        return cls(k, v, 0)

    def append(
        self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T K"]
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Write the new positions behind the old and give all of them."""
        end = self.length + k.size(2)
        if end > self.k.size(2):
            raise InputError(
                f"The cache has room for {self.k.size(2)} positions; {end} were asked for.",
                "Appending makes no room, so that a step copies nothing.",
                "Start it larger, start_cache(..., capacity=<longest output>), or reserve more.",
            )
        for room, new in ((self.k, k), (self.v, v)):
            room.narrow(2, self.length, k.size(2)).copy_(new)
        self.length = end
        return self.read(k.dtype)

    def read(self, dtype: torch.dtype) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Those that are filled, as numbers of this kind."""
        k, v = self.keys_values()
        return k.to(dtype), v.to(dtype)

    def size(self, capacity: int) -> int:
        """Numbers that so many positions are."""
        return sum(prod(x.shape[:2]) * capacity * x.size(3) for x in (self.k, self.v))

    def move(self, capacity: int, room: Room) -> None:
        """To where there is room for so many positions."""
        old, (batch, heads, _, d_k) = self.keys_values(), self.k.shape
        self.k, self.v = (room.take(batch, heads, capacity, d_k) for _ in range(2))
        for x, kept in zip(self.keys_values(), old, strict=True):
            x.copy_(kept)

    def keys_values(self) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Those that are filled."""
        return self.k.narrow(2, 0, self.length), self.v.narrow(2, 0, self.length)

    def choose(self, slots: Int[Tensor, "B n"]) -> None:
        """Keep these positions only, each row its own, in this order."""
        batch, heads, room, _ = self.k.shape
        first = torch.arange(0, batch * heads * room, room, device=slots.device)
        lines = (first.view(batch, heads, 1) + slots[:, None]).flatten()
        self.length = slots.size(1)
        for x, kept in zip((self.k, self.v), self.keys_values(), strict=True):
            kept.copy_(x.flatten(0, 2).index_select(0, lines).view_as(kept))

    def reorder(self, rows: Int[Tensor, "R"]) -> None:
        """Row r becomes what row `rows[r]` was; rows may be absent (finished) or repeat."""
        self.k, self.v = self._select(self.k, rows), self._select(self.v, rows)

    def _select(self, x: Tensor, rows: Tensor) -> Tensor:
        """Where it is, if it fits there. Only what is filled is worth copying."""
        chosen = x.narrow(2, 0, self.length).index_select(0, rows)
        n, (batch, *shape) = len(rows), x.shape
        x = x[:n] if n <= batch else x.new_empty(n, *shape)
        x.narrow(2, 0, self.length).copy_(chosen)
        return x


@dataclass
class LayerCache:
    """What one decoder layer keeps."""

    self_attention: KeyValueCache
    cross_attention: KeyValueCache | None


@dataclass
class DecoderCache:
    """What a decoder keeps between steps: one `LayerCache` per layer, and where the keys stand."""

    layers: list[LayerCache]
    positions: Int[Tensor, "P"]

    @property
    def _own(self) -> list[KeyValueCache]:
        return [layer.self_attention for layer in self.layers]

    @property
    def _sources(self) -> list[KeyValueCache]:
        return [c for layer in self.layers if (c := layer.cross_attention) is not None]

    @property
    def length(self) -> int:
        """How many target tokens have keys and values here."""
        return self._own[0].length

    @property
    def capacity(self) -> int:
        """How many there is room for."""
        return self._own[0].k.size(2)

    def reserve(self, capacity: int) -> None:
        """Have room for so many target tokens."""
        if capacity <= self.capacity:
            return
        caches = [(c, capacity) for c in self._own] + [(c, c.length) for c in self._sources]
        room = Room(self._own[0].k, sum(c.size(positions) for c, positions in caches))
        for cache, positions in caches:
            cache.move(positions, room)

    def extend(self, positions: Int[Tensor, "T"]) -> Int[Tensor, "P"]:
        """The positions of all keys once those of the next tokens are among them."""
        self.positions = torch.cat((self.positions, positions))
        return self.positions

    def advance(self, positions: Int[Tensor, "T"]) -> None:
        """The next tokens' keys and values have been written into the tensors of `tensors`."""
        self.extend(positions)
        for cache in self._own:
            cache.length += len(positions)

    def choose(self, slots: Int[Tensor, "B n"]) -> None:
        """Keep these target positions only; what stands in one column stood at one position."""
        self.positions = self.positions[slots[0]]
        for cache in self._own:
            cache.choose(slots)

    def reorder(self, rows: Int[Tensor, "R"]) -> None:
        for cache in (*self._own, *self._sources):
            cache.reorder(rows)

    @property
    def tensors(self) -> list[Tensor]:
        """Keys and values, and the room for more of them, layer by layer: see `of`."""
        caches = [c for layer in self.layers for c in (layer.self_attention, layer.cross_attention)]
        return [tensor for c in caches if c is not None for tensor in (c.k, c.v)]

    @classmethod
    def of(
        cls, tensors: list[Tensor], n_layers: int, positions: Int[Tensor, "P"]
    ) -> "DecoderCache":
        """The cache of `n_layers` layers whose `tensors` these are."""
        per_layer = len(tensors) // n_layers
        layers = []
        for first in range(0, len(tensors), per_layer):
            k, v, *source = tensors[first : first + per_layer]
            own = KeyValueCache(k, v, positions.size(0))
            cross = KeyValueCache(source[0], source[1], source[0].size(2)) if source else None
            layers.append(LayerCache(own, cross))
        return cls(layers, positions)

    @property
    def n_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)
