"""What a model does for every sentence and step, recorded once and played back without Python.

A step is some hundred small operations, and Python takes longer to ask for one than torch to do it.
So after a while torch writes down what a step consists of (`torch.jit.trace`) and from then on goes
through that on its own. A recording holds for every batch and any number of tokens before; whatever
else the model's code decides by makes another kind of call, with a recording of its own.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from math import ceil
from threading import Lock
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.decode.packed import LARGE, linear_layers, n_bytes
from glassformer.machine import use_large_pages
from glassformer.model import attention
from glassformer.model.attention import (
    MultiHeadAttention,
    few_queries_attention,
    fused_attention,
    scaled_dot_product_attention,
)
from glassformer.model.cache import DecoderCache
from glassformer.model.embedding import check_ids
from glassformer.model.encoder import TransformerEncoder
from glassformer.model.transformer import LanguageModel, Transformer

Speaker = Transformer | LanguageModel
OFTEN = 300  # calls that cost without a recording what making one does, some tenths of a second
MUCH = 10**10  # bytes times rows of a reading beside which Python is nothing, and memory is much
KERNELS = scaled_dot_product_attention, fused_attention, few_queries_attention
ONE_AT_A_TIME = Lock()  # torch records what one thread does, and warnings are everybody's
PLACE = "_replay"  # of a model's recordings, among its attributes


class Kind(NamedTuple):
    """Calls that one recording serves, as the model's code treats them alike."""

    width: int  # of the beam
    masked: tuple[bool, ...]
    sentences: int  # as few as that: recording keeps all that is computed on the way
    by_products: bool  # how attention is computed
    alone: bool  # one row, which layers may treat otherwise


class Recorder:
    """`of_kind(kind)` is a module from tensors to tensors, recorded after `often` calls.

    When it has been, it is time to `settle`.
    """

    def __init__(
        self, of_kind: Callable[[Kind], nn.Module], often: int, settle: Callable[[], None]
    ) -> None:
        self.of_kind, self.often, self.settle = of_kind, often, settle
        self._calls: Counter[Kind] = Counter()
        self._counting = Lock()  # parts of a batch call side by side
        self._used: dict[Kind, nn.Module] = {}

    def __call__(self, kind: Kind, shared: Sequence[Tensor], batched: Sequence[Tensor]) -> Any:
        """Given what is common to all sentences, and what has a row for each."""
        with self._counting:
            if kind not in self._used:
                self._used[kind] = self.of_kind(kind).eval()
            calls = self._calls[kind]
            self._calls[kind] = calls + 1
        if calls == self.often:
            with ONE_AT_A_TIME:
                recording = _trace(
                    self._used[kind], (*shared, *(x[: kind.sentences] for x in batched))
                )
                with _plainly_played():
                    said = recording(*shared, *batched)
                self.settle()
            self._used[kind] = recording
            return said
        return self._used[kind](*shared, *batched)


def _trace(module: nn.Module, example: tuple[Tensor, ...]) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that shapes are asked for, and that torch.jit may go
        recording: nn.Module = torch.jit.trace(
            module,
            example,
            check_trace=False,
            _store_inputs=False,  # a whole batch's keys and values
        )
    return recording


@contextmanager
def _plainly_played() -> Iterator[None]:
    """What is played here for the first time torch's older, simpler player plays from then on.

    The newer one watches the first calls for what else it could do. It finds nothing here, and
    keeps what it saw.
    """
    before = torch._C._jit_set_profiling_executor(False)
    try:
        yield
    finally:
        torch._C._jit_set_profiling_executor(before)


class Replay:
    """The recordings of one model, whose weights and parts must not change any more."""

    def __init__(self, model: Speaker, often: int) -> None:
        self.model, self.often = model, often
        self._steps = Recorder(partial(_Step, model), often, self._settle)
        self._readings = Recorder(lambda _: self._reader, often, self._settle)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins anew, with the model's copy."""
        return Replay, (self.model, self.often)

    def _settle(self) -> None:
        """What is recorded will be called often, and reads all weights each time."""
        if n_bytes(self.model) > LARGE:
            use_large_pages()

    @property
    def is_watched(self) -> bool:
        """Whether somebody wants to see the parts at work: in a recording they are not."""
        return any(
            module._forward_hooks
            or module._forward_pre_hooks
            or (isinstance(module, MultiHeadAttention) and module.kernel not in KERNELS)
            for module in self._parts
        )

    @property
    def _reader(self) -> TransformerEncoder:
        return cast(Transformer, self.model).encoder

    @cached_property
    def _reader_bytes(self) -> int:
        return n_bytes(self._reader)

    @cached_property
    def _parts(self) -> list[nn.Module]:
        return list(self.model.modules())

    @cached_property
    def n_weights(self) -> int:
        """Of all linear layers."""
        return sum(part.in_features * part.out_features for part in linear_layers(self.model))

    @cached_property
    def _n_heads(self) -> int:
        return next(part.n_heads for part in self._parts if isinstance(part, MultiHeadAttention))

    def _kind(self, ids: Int[Tensor, "B T"], *masks: Tensor | None, width: int = 1) -> Kind:
        by_products = attention.is_product(len(ids) * self._n_heads, ids.size(1))
        alone = ids.numel() == 1
        enough = 1 if alone or ids.size(1) > 1 else 2
        if by_products:
            enough = ceil(attention.MANY_HEADS / self._n_heads)
        return Kind(width, tuple(mask is not None for mask in masks), enough, by_products, alone)

    def read(self, source: Int[Tensor, "B S"], mask: Tensor | None) -> Float[Tensor, "B S D"]:
        """What the encoder makes of it."""
        check_ids(source, self._reader.embedding.vocab_size)  # a recording does not look at values
        if source.numel() * self._reader_bytes > MUCH:
            return self._reader(source, mask)
        masks = [] if mask is None else [mask]
        return self._readings(self._kind(source, mask), (), (source, *masks))

    def step(
        self,
        ids: Int[Tensor, "B W"],
        mask: Tensor | None,
        source_mask: Tensor | None,
        cache: DecoderCache,
        positions: Int[Tensor, "W"],
    ) -> Float[Tensor, "B W V"]:
        """What `speak` says."""
        kind = self._kind(ids, mask, source_mask, width=ids.size(1))
        masks = [m for m in (mask, source_mask) if m is not None]
        shared, batched = (positions, cache.positions), (ids, *masks, *cache.tensors)
        logits = self._steps(kind, shared, batched)
        cache.advance(positions)
        return logits


class _Step(nn.Module):
    """A step whose inputs are all tensors, as recording asks for."""

    def __init__(self, model: Speaker, kind: Kind) -> None:
        super().__init__()
        self.decoder, self.output, self.masked = model.decoder, model.output, kind.masked

    def forward(
        self, positions: Tensor, past: Tensor, ids: Tensor, *others: Tensor
    ) -> Float[Tensor, "B W V"]:
        rest = list(others)
        mask, source_mask = (rest.pop(0) if given else None for given in self.masked)
        cache = DecoderCache.of(rest, len(self.decoder.layers), past)
        return speak(self, ids, mask, source_mask, cache, positions)


def speak(
    model: Speaker | _Step,
    ids: Int[Tensor, "B T"],
    mask: Tensor | None,
    source_mask: Tensor | None,
    cache: DecoderCache,
    positions: Int[Tensor, "T"] | None,
) -> Float[Tensor, "B T V"]:
    """The logits of what follows `ids`, which follow what is in the cache."""
    return model.output(model.decoder(ids, None, mask, source_mask, cache, positions))


def record(model: Speaker, often: int = OFTEN) -> None:
    """From now on what this model does is recorded; it must not change any more."""
    vars(model)[PLACE] = Replay(model, often)


def recordings(model: Speaker) -> Replay | None:
    """Those of a model that is recorded, unless somebody looks on."""
    replay: Replay | None = vars(model).get(PLACE)
    if replay is None or replay.model is not model:  # but a copy of what was recorded
        return None
    return None if replay.is_watched else replay
