"""Links between rows of our parameters and of those of another library.

A converter lists its links once. Copying in either direction and comparing gradients use them.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.model.norm import LayerNorm

ALL = slice(None)


class Link(NamedTuple):
    ours: Tensor
    theirs: Tensor
    our_rows: slice = ALL
    their_rows: slice = ALL

    def values(self) -> tuple[Tensor, Tensor]:
        return self.ours.data[self.our_rows], self.theirs.data[self.their_rows]

    def gradients(self) -> tuple[Tensor, Tensor]:
        ours, theirs = self.ours.grad, self.theirs.grad
        assert ours is not None and theirs is not None, "gradients exist after backward()"
        return ours[self.our_rows], theirs[self.their_rows]


@torch.no_grad()
def send(links: Iterable[Link], theirs: nn.Module) -> None:
    """Copy our weights into their model; their parameters without a link become 0."""
    links = list(links)
    linked = {id(link.theirs) for link in links}
    for parameter in theirs.parameters():
        if id(parameter) not in linked and parameter.requires_grad:
            parameter.zero_()
    for link in links:
        our_values, their_values = link.values()
        their_values.copy_(our_values)


@torch.no_grad()
def receive(links: Iterable[Link]) -> None:
    """Copy their weights into our model."""
    for link in links:
        our_values, their_values = link.values()
        our_values.copy_(their_values)


def linear_links(ours: nn.Linear, theirs: nn.Linear, rows: slice = ALL) -> Iterable[Link]:
    """Yield the links of their Linear with `rows` of ours."""
    yield Link(ours.weight, theirs.weight, our_rows=rows)
    if ours.bias is not None and theirs.bias is not None:
        yield Link(ours.bias, theirs.bias, our_rows=rows)


def norm_links(ours: nn.Module, theirs: nn.LayerNorm) -> Iterable[Link]:
    if not isinstance(ours, LayerNorm) or theirs.bias is None:
        raise InputError(
            f"{type(ours).__name__} cannot be linked to {theirs}.",
            "Both must be layer norms with a gain and a bias.",
            "Build with norm='layer-norm'.",
        )
    yield Link(ours.gain, theirs.weight)
    yield Link(ours.bias, theirs.bias)
