"""Weights go out and come back as they were, and what one side lacks is zero or left alone."""

import pytest
import torch
from torch import Tensor, nn

from glassformer.interop.links import Link, linear_links, norm_links, receive, send
from glassformer.model.norm import LayerNorm


class Ours(nn.Module):
    """Three products packed into one, and a norm."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.packed, self.norm = nn.Linear(4, 6, bias), LayerNorm(4)


class Theirs(nn.Module):
    """The same, unpacked, with a bias always and with a table that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, 2) for _ in range(3))
        self.norm = nn.LayerNorm(4)
        self.table = nn.Parameter(torch.ones(3), requires_grad=False)


def random_pair(bias: bool) -> tuple[Ours, Theirs, list[Link]]:
    ours, theirs = Ours(bias), Theirs()
    for parameter in (*ours.parameters(), *theirs.parameters()):
        nn.init.normal_(parameter)
    links = [*norm_links(ours.norm, theirs.norm)]
    for i, linear in enumerate((theirs.q, theirs.k, theirs.v)):
        links += linear_links(ours.packed, linear, slice(2 * i, 2 * i + 2))
    return ours, theirs, links


def weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    torch.testing.assert_close(ours, theirs, atol=0.0, rtol=0.0)


def test_receiving_and_sending_back_is_the_identity() -> None:
    ours, theirs, links = random_pair(bias=True)
    before, was_ours = weights(theirs), weights(ours)
    receive(links)
    assert_same(weights(theirs), before)
    assert all((now != then).all() for now, then in zip(weights(ours), was_ours, strict=True))
    send(links, theirs)
    assert_same(weights(theirs), before)


def test_sending_and_receiving_back_is_the_identity() -> None:
    ours, theirs, links = random_pair(bias=True)
    before = weights(ours)
    send(links, theirs)
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    receive(links)
    assert_same(weights(ours), before)


def test_rows_of_a_packed_weight_are_copied_to_their_projections() -> None:
    ours, theirs, links = random_pair(bias=True)
    send(links, theirs)
    parts = (theirs.q, theirs.k, theirs.v)
    assert_same([torch.cat([part.weight for part in parts])], [ours.packed.weight])
    assert_same([torch.cat([part.bias for part in parts])], [ours.packed.bias])
    assert_same([theirs.norm.weight, theirs.norm.bias], [ours.norm.gain, ours.norm.bias])


def test_sending_zeroes_unlinked_parameters_but_not_frozen_ones() -> None:
    _, theirs, links = random_pair(bias=False)
    table = theirs.table.clone()
    send(links, theirs)
    assert not any(part.bias.any() for part in (theirs.q, theirs.k, theirs.v))
    assert theirs.norm.bias.all()
    assert_same([theirs.table], [table])


def test_receiving_keeps_our_unlinked_parameters() -> None:
    ours, theirs = nn.Linear(4, 2, bias=True), nn.Linear(4, 2, bias=False)
    bias = ours.bias.clone()
    receive(linear_links(ours, theirs))
    assert_same([ours.weight, ours.bias], [theirs.weight, bias])


def test_gradients_are_those_of_the_linked_rows() -> None:
    ours, theirs, links = random_pair(bias=True)
    send(links, theirs)
    x = torch.randn(3, 4)
    ours.packed(ours.norm(x)).square().sum().backward()
    y = theirs.norm(x)
    sum(part(y).square().sum() for part in (theirs.q, theirs.k, theirs.v)).backward()
    assert len(links) == 2 + 3 * 2
    for link in links:
        torch.testing.assert_close(*link.gradients())


def test_gradients_exist_only_after_backward() -> None:
    _, _, links = random_pair(bias=True)
    with pytest.raises(AssertionError, match=r"after backward\(\)"):
        links[0].gradients()
