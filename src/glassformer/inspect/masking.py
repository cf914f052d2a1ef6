"""Head masking: scale or remove the output of single heads (Michel et al., 2019)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.inspect.maps import Kind, kind_of
from glassformer.model.attention import Kernel, attentions, replaced_kernels

T = TypeVar("T")
HeadIndex = tuple[Kind, int, int]  # kind of attention, layer and head, from 0
Gates = Mapping[str, Tensor]  # a factor per head, (H,) or (B, H), by the name of the attention


def attention_names(model: nn.Module) -> dict[tuple[Kind, int], str]:
    """Return the name of every attention of a model, by kind and layer."""
    names: dict[tuple[Kind, int], str] = {}
    for name in attentions(model):
        kind = kind_of(name)
        names[kind, sum(other == kind for other, _ in names)] = name
    return names


def head_indices(model: nn.Module) -> list[HeadIndex]:
    """Return the index of every head."""
    modules = attentions(model)
    return [
        (kind, layer, head)
        for (kind, layer), name in attention_names(model).items()
        for head in range(modules[name].n_heads)
    ]


@contextmanager
def gated(model: nn.Module, gates: Gates) -> Iterator[None]:
    """Multiply the output of each head by its gate inside the block.

    To record attention meanwhile, enter `record_attention` first: it brings its own kernel.
    """
    with replaced_kernels(model, lambda name, kernel: _gated_kernel(gates.get(name), kernel)):
        yield


def _gated_kernel(gate: Tensor | None, kernel: Kernel) -> Kernel:
    if gate is None:
        return kernel

    def gated_kernel(*args: Any) -> tuple[Tensor, Tensor | None]:
        output, weights = kernel(*args)
        return output * gate[..., None, None].to(output), weights

    return gated_kernel


@contextmanager
def without_head(model: nn.Module, kind: Kind, layer: int, head: int) -> Iterator[None]:
    """Set the output of one head to zero inside the block, like zeros in its part of W^O."""
    with gated(model, gates_without(model, [(kind, layer, head)])):
        yield


def gates_without(model: nn.Module, heads: Iterable[HeadIndex]) -> dict[str, Tensor]:
    """Return the gates that set the output of these heads to zero."""
    names, modules = attention_names(model), attentions(model)
    gates: dict[str, Tensor] = {}
    for kind, layer, head in check_heads(model, heads):
        name = names[kind, layer]
        gates.setdefault(name, torch.ones(modules[name].n_heads))[head] = 0
    return gates


def check_heads(model: nn.Module, heads: Iterable[HeadIndex]) -> list[HeadIndex]:
    """Return the heads; refuse those that the model has not."""
    known, found = set(head_indices(model)), list(heads)
    for kind, layer, head in found:
        if (kind, layer, head) not in known:
            raise InputError(
                f"The model has no head {head} in layer {layer} of its {kind} attention.",
                f"It has {len(known)} heads; layers and heads count from 0.",
                "Use an index from head_indices(model).",
            )
    return found


def without_each(
    model: nn.Module, run: Callable[[], T], tick: Callable[[], None] = lambda: None
) -> dict[HeadIndex, T]:
    """Return the result of `run`, which uses the model, without each head in turn."""
    results: dict[HeadIndex, T] = {}
    for index in head_indices(model):
        with without_head(model, *index):
            results[index] = run()
        tick()
    return results
