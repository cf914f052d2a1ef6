"""Heads, one by one: how far apart they look, what each matters, and the model without some.

A gate is a factor on what one head says: 1 leaves it alone, 0 takes it away.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.data.batch import Batch
from glassformer.model.attention import Kernel, MultiHeadAttention, record_attention
from glassformer.train.step import Objective

Head = tuple[str, int]  # the name of its attention, and its number there
Gates = dict[str, Tensor]  # a factor per head, (H,) or (B, H), by the name of the attention


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention]:
    return {n: m for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)}


def open_gates(model: nn.Module, *batch: int) -> Gates:
    """All of them 1."""
    return {name: torch.ones(*batch, a.n_heads) for name, a in attentions(model).items()}


@contextmanager
def gated(model: nn.Module, gates: Gates) -> Iterator[None]:
    """Inside the block every head's output is multiplied by its gate."""
    kernels = {name: attention.kernel for name, attention in attentions(model).items()}
    try:
        for name, attention in attentions(model).items():
            attention.kernel = _behind(gates[name], kernels[name])
        yield
    finally:
        for name, attention in attentions(model).items():
            attention.kernel = kernels[name]


def _behind(gate: Tensor, kernel: Kernel) -> Kernel:
    def gated_kernel(*args: Any) -> tuple[Tensor, Tensor | None]:
        output, weights = kernel(*args)
        return output * gate[..., None, None], weights

    return gated_kernel


def importance(model: nn.Module, batch: Batch, gates: Gates) -> dict[Head, float]:
    """|∂ loss / ∂ gate| of each open gate, the mean over sentences (Michel et al., 2019, Eq. 2)."""
    model.eval()
    rows = len(batch.labels)
    each = {name: gate.expand(rows, -1).clone().requires_grad_() for name, gate in gates.items()}
    with gated(model, each):
        Objective(model, 0.0)(batch.labels, *batch.inputs).backward()
    model.zero_grad()
    found: dict[Head, float] = {}
    for name, gate in each.items():
        assert gate.grad is not None, "every attention has a part in the loss"
        slopes = gate.grad.abs().mean(0).tolist()
        found |= {(name, i): s for i, s in enumerate(slopes) if gates[name][i] > 0}
    return found


def prune(model: nn.Module, batch: Batch) -> Iterator[Gates]:
    """The gates as the least important head is shut, one after another, until none is open.

    What a head matters is looked at anew each time: it may stand in for one that is gone.
    """
    gates = open_gates(model)
    yield gates
    while matters := importance(model, batch, gates):
        name, head = min(matters, key=matters.__getitem__)
        gates = {**gates, name: gates[name].clone()}
        gates[name][head] = 0.0
        yield gates


@torch.no_grad()
def diversity(model: nn.Module, batch: Batch) -> float:
    """How differently the heads of one attention look: the mean Jensen–Shannon distance.

    Of two heads at one query it is 0 where they look alike, and 1 where one never looks where the
    other does. The mean is over queries, pairs of heads and attentions.
    """
    with record_attention(model.eval()) as maps:
        model(*batch.inputs)
    real = {name: _real_queries(name, batch) for name in maps}
    distances = [
        jensen_shannon(weights[:, one][real[name]], weights[:, other][real[name]]).mean()
        for name, (weights,) in maps.items()
        for one, other in combinations(range(weights.size(1)), 2)
    ]
    return float(torch.stack(distances).mean())


def _real_queries(name: str, batch: Batch) -> Tensor:
    """Which queries are tokens: the source's in an encoder, else those of the last input."""
    ids = batch.inputs[0] if name.startswith("encoder") else batch.inputs[-1]
    return ids != 0


def jensen_shannon(p: Float[Tensor, "*N S"], q: Float[Tensor, "*N S"]) -> Float[Tensor, "*N"]:
    """√ of the Jensen–Shannon divergence in bits: a distance from 0 to 1."""
    middle = torch.special.entr((p + q) / 2).sum(-1)
    apart = (torch.special.entr(p) + torch.special.entr(q)).sum(-1) / 2
    bits = (middle - apart) / torch.log(torch.tensor(2.0))
    return bits.clamp(0.0, 1.0).sqrt()
