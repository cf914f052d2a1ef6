"""What a head is good for, by doing without it: one head masked at a time (Michel et al., 2019)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.inspect.maps import Kind, kind_of
from glassformer.model.attention import MultiHeadAttention

T = TypeVar("T")
Place = tuple[Kind, int, int]  # kind of attention, layer, head, from 0


def attentions(model: nn.Module) -> dict[tuple[Kind, int], MultiHeadAttention]:
    """Every attention of a model, by kind and layer."""
    found: dict[tuple[Kind, int], MultiHeadAttention] = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            kind = kind_of(name)
            layer = sum(other == kind for other, _ in found)
            found[kind, layer] = module
    return found


def places(model: nn.Module) -> list[Place]:
    """Every head."""
    return [
        (kind, layer, head)
        for (kind, layer), attention in attentions(model).items()
        for head in range(attention.n_heads)
    ]


@contextmanager
def without_head(model: nn.Module, kind: Kind, layer: int, head: int) -> Iterator[None]:
    """Inside the block the head says nothing: its output is zero, as if W^O had zeros for it.

    To record attention meanwhile, stand inside `record_attention`, which brings its own kernel.
    """
    attention = attentions(model).get((kind, layer))
    if attention is None or not 0 <= head < attention.n_heads:
        raise InputError(
            f"The model has no head {head} in layer {layer} of its {kind} attention.",
            f"It has {len(places(model))} heads; layers and heads count from 0.",
            "Take one of places(model).",
        )
    whole = attention.kernel

    def kernel(*args: Any) -> tuple[Tensor, Tensor | None]:
        output, weights = whole(*args)
        output = output.clone()
        output[:, head] = 0
        return output, weights

    attention.kernel = kernel
    try:
        yield
    finally:
        attention.kernel = whole


def without_each(
    model: nn.Module, run: Callable[[], T], tick: Callable[[], None] = lambda: None
) -> dict[Place, T]:
    """What `run` gives without each head, one at a time; a tick for each. It runs the model."""
    found: dict[Place, T] = {}
    for place in places(model):
        with without_head(model, *place):
            found[place] = run()
        tick()
    return found
