"""Examples to tensors: what goes into a model, and the label of each position that comes out."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batching import Indices, draw_seed
from glassformer.data.kinds import KINDS
from glassformer.data.ragged import Ids, Ragged
from glassformer.data.tokenizer import BOS, EOS, PAD, UNK

IGNORE = -100  # the label of a position that asks nothing, as torch's losses have it


class Counts(NamedTuple):
    """Sizes of a batch, counted on the CPU before it is on a device to wait for."""

    labels: int
    tokens: int
    cells: int  # of the inputs, padding included


@dataclass(frozen=True)
class Batch:
    """model(*inputs) gives logits for `labels`."""

    inputs: tuple[Tensor, ...]
    labels: Tensor
    counts: Counts | None = None  # None: not counted yet

    @property
    def n_labels(self) -> int:
        return self._counted().labels

    @property
    def padding(self) -> tuple[int, int]:
        """Cells of the inputs that hold a token, and all of them."""
        return self._counted()[1:]

    def _counted(self) -> Counts:
        return self.counts or Counts(
            int((self.labels != IGNORE).sum()),
            sum(int((x != PAD).sum()) for x in self.inputs),
            sum(x.numel() for x in self.inputs),
        )

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device. What goes to CUDA is copied from pinned memory, unwaited for."""
        if device == self.labels.device:
            return self
        moved = [_moved(x, device) for x in (*self.inputs, self.labels)]
        return Batch(tuple(moved[:-1]), moved[-1], self._counted())


def _moved(x: Tensor, device: torch.device) -> Tensor:
    if device.type != "cuda":
        return x.to(device)
    with torch.cuda.device(device):  # a thread begins on GPU 0, and would take memory there
        return x.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Examples:
    """Tokenised examples of one kind of model, a `Ragged` per side.

    translator       source and target       [masked-]language-model        text
    tagger           text and its labels     classifier                     text and one label

    The share `hidden` of what is read is <unk>: a masked language model must guess it, others do
    without.
    """

    kind: str
    sides: tuple[Ragged, ...]
    redraw: Callable[[int], tuple[Ragged, ...]] | None = None  # seed: the sides, split anew
    hidden: float = 0.0

    def __len__(self) -> int:
        return len(self.sides[0])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The lengths of each side that is padded, with the tokens that `batch` adds."""
        kind = KINDS[self.kind]
        padded = self.sides[:1] if kind.has_label else self.sides
        return np.stack([side.lengths + kind.special_tokens for side in padded], axis=1)

    def drawn(self, seed: int) -> "Examples":
        """The same examples with every text split anew by `seed`, if that is how they are read.

        All of them before any batch is cut: another split has another length.
        """
        return self if self.redraw is None else replace(self, sides=self.redraw(seed), redraw=None)

    def epoch(self, seed: int, number: int, progress: float = 0.0) -> "Examples":
        """The examples of epoch `number`: the same ones, whatever share of the run is done."""
        return self.drawn(draw_seed(seed, number))

    def batch(self, indices: Indices, seed: int = 0) -> Batch:
        """The examples of `indices`; what is hidden is drawn by `seed`."""
        columns: list[list[Ids]] = [[side[i] for i in indices.tolist()] for side in self.sides]
        batch = ASSEMBLE[self.kind](*columns)
        return hide(batch, self.hidden, seed) if self.hidden else batch


def hide(batch: Batch, share: float, seed: int) -> Batch:
    """<unk> in place of `share` of the subwords that are read, and of one at least; marks stay.

    Where the labels are the very subwords that are read, only the hidden ones are asked for: with
    none of them there would be no loss.
    """
    random = torch.Generator().manual_seed(seed)
    draws = [torch.rand(ids.shape, generator=random) + (ids <= EOS) for ids in batch.inputs]
    chosen = [(draw < share) | ((draw == draw.min()) & (draw < 1)) for draw in draws]
    inputs = tuple(ids.masked_fill(c, UNK) for ids, c in zip(batch.inputs, chosen, strict=True))
    labels = batch.labels
    if labels is batch.inputs[0]:
        labels = labels.masked_fill(~chosen[0], IGNORE)
    return Batch(inputs, labels)


def _translation(source: list[Ids], target: list[Ids]) -> Batch:
    """The encoder reads x </s>; the decoder reads <s> y and must say y </s>."""
    inputs = pad([[*x, EOS] for x in source]), pad([[BOS, *y] for y in target])
    return Batch(inputs, pad([[*y, EOS] for y in target], IGNORE))


def _text(text: list[Ids]) -> Batch:
    """A language model reads <s> y and must say y </s>."""
    return Batch((pad([[BOS, *y] for y in text]),), pad([[*y, EOS] for y in text], IGNORE))


def _in_place(text: list[Ids]) -> Batch:
    """A masked language model reads <s> y and must say the same, where it is hidden."""
    ids = pad([[BOS, *y] for y in text])
    return Batch((ids,), ids)


def _labelled(text: list[Ids], label: list[Ids]) -> Batch:
    """A classifier reads <s> x, where <s> is the place to sum up."""
    return Batch((pad([[BOS, *x] for x in text]),), torch.tensor([int(y[0]) for y in label]))


def _tagged(text: list[Ids], labels: list[Ids]) -> Batch:
    """A tagger answers in place; PAD among its labels is a place without a question."""
    answers = pad(labels)
    return Batch((pad(text),), answers.masked_fill(answers == PAD, IGNORE))


ASSEMBLE: dict[str, Callable[..., Batch]] = {
    "translator": _translation,
    "language-model": _text,
    "masked-language-model": _in_place,
    "classifier": _labelled,
    "tagger": _tagged,
}


def pad(rows: Sequence[Ids], filler: int = PAD) -> Tensor:
    """(rows, longest) with `filler` behind the shorter rows."""
    padded = np.full((len(rows), max(len(row) for row in rows)), filler, np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)


T = TypeVar("T")


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """The same items, the next one made by a thread while the last is in use."""
    end = object()
    with ThreadPoolExecutor(1) as worker:
        ahead = worker.submit(next, items, end)
        while (item := ahead.result()) is not end:
            ahead = worker.submit(next, items, end)
            yield cast(T, item)
