"""Importance of heads by gates on their outputs, pruning by it, and diversity of heads.

A gate is a factor on the output of one head: 1 keeps the head, 0 removes it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from glassformer.data.batch import Batch
from glassformer.inspect.heads import pairwise_divergence
from glassformer.inspect.masking import gated
from glassformer.model.attention import attentions, record_attention
from glassformer.train.step import Objective

Head = tuple[str, int]  # the name of its attention, and its index there
Gates = dict[str, Tensor]  # a factor per head, (H,) or (B, H), by the name of the attention


def open_gates(model: nn.Module) -> Gates:
    """Return gates that are all 1."""
    device = next(model.parameters()).device
    return {name: torch.ones(a.n_heads, device=device) for name, a in attentions(model).items()}


def importance(model: nn.Module, batch: Batch, gates: Gates) -> dict[Head, float]:
    """Return |∂ loss / ∂ gate| of each open gate, mean over sentences (Michel et al., Eq. 2)."""
    model.eval()
    batch = batch.to(next(model.parameters()).device)
    rows = len(batch.labels)
    each = {name: gate.expand(rows, -1).clone().requires_grad_() for name, gate in gates.items()}
    with gated(model, each):
        Objective(model, 0.0)(batch.labels, *batch.inputs).backward()
    model.zero_grad()
    found: dict[Head, float] = {}
    for name, gate in each.items():
        assert gate.grad is not None, "every attention contributes to the loss"
        gradients = gate.grad.abs().mean(0).cpu().tolist()
        found |= {(name, i): g for i, g in enumerate(gradients) if gates[name][i] > 0}
    return found


def prune(model: nn.Module, batch: Batch) -> Iterator[Gates]:
    """Yield the gates while the least important head is removed, one at a time, until none is left.

    Importance is computed anew at each step: a head may replace one that was removed.
    """
    gates = open_gates(model)
    yield gates
    while scores := importance(model, batch, gates):
        name, head = min(scores, key=scores.__getitem__)
        gates = {**gates, name: gates[name].clone()}
        gates[name][head] = 0.0
        yield gates


@torch.no_grad()
def diversity(model: nn.Module, batch: Batch) -> float:
    """Return the mean Jensen–Shannon distance (√ of the divergence in bits) between heads.

    0: all heads attend alike; 1: no two heads attend to the same token. The mean is over queries,
    pairs of heads of one attention, and attentions.
    """
    batch = batch.to(next(model.parameters()).device)
    with record_attention(model.eval()) as maps:
        model(*batch.inputs)
    distances = []
    for name, (weights,) in maps.items():
        heads = weights.transpose(0, 1)[:, _real_queries(name, batch)]  # (H, queries, S)
        one, other = torch.triu_indices(len(heads), len(heads), 1, device=heads.device)
        distances.append(pairwise_divergence(heads)[one, other].sqrt().mean(-1))
    return float(torch.cat(distances).mean())


def _real_queries(name: str, batch: Batch) -> Tensor:
    """Mark the queries that are no padding: of the source in an encoder, else of the last input."""
    ids = batch.inputs[0] if name.startswith("encoder") else batch.inputs[-1]
    return ids != 0
