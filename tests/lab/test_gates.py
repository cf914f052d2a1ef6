"""Gates: heads taken away, what they matter, how far apart they look."""

import math

import pytest
import torch

from glassformer.data.batch import Batch
from glassformer.lab.gates import (
    attentions,
    diversity,
    gated,
    importance,
    jensen_shannon,
    open_gates,
    prune,
)
from glassformer.lab.learning import Task, loss, small
from glassformer.train.step import Objective

TASK = Task("reverse", "translator", lengths=(2, 5))
HEADS = 3 * 2 * 2  # attentions of a layer of each stack, two layers, two heads


def batch() -> Batch:
    return TASK.held_out(4)


def test_a_shut_gate_is_a_head_whose_columns_of_the_output_are_nothing() -> None:
    model, gates = small(TASK).eval(), {}
    gates = open_gates(model)
    gates["encoder.layers.1.self_attention"][0] = 0.0
    with gated(model, gates), torch.no_grad():
        shut = model(*batch().inputs)
    attention = attentions(model)["encoder.layers.1.self_attention"]
    with torch.no_grad():
        attention.output.weight[:, : attention.d_k] = 0.0
        torch.testing.assert_close(shut, model(*batch().inputs))


def test_open_gates_change_nothing_and_kernels_come_back_after_an_error() -> None:
    model = small(TASK).eval()
    before, kernels = model(*batch().inputs), [a.kernel for a in attentions(model).values()]
    with pytest.raises(RuntimeError), gated(model, open_gates(model)):
        assert torch.equal(model(*batch().inputs), before)
        raise RuntimeError
    assert [a.kernel for a in attentions(model).values()] == kernels


def test_importance_is_the_slope_of_the_loss_of_each_sentence() -> None:
    model, asked, step = small(TASK).double().eval(), batch(), 1e-5
    gates = {name: gate.double() for name, gate in open_gates(model).items()}
    found = importance(model, asked, gates)
    assert len(found) == HEADS
    name, head = "decoder.layers.0.cross_attention", 1

    def losses(gate: float) -> torch.Tensor:
        gates[name][head] = gate
        with gated(model, gates), torch.no_grad():
            rows = [
                Objective(model, 0.0)(asked.labels[[i]], *(x[[i]] for x in asked.inputs))
                for i in range(len(asked.labels))
            ]
        return torch.stack(rows)

    slopes = (losses(1 + step) - losses(1 - step)) / (2 * step)
    assert found[name, head] == pytest.approx(float(slopes.abs().mean()), rel=1e-4)


def test_importance_leaves_no_gradients_and_knows_no_shut_gate() -> None:
    model = small(TASK)
    gates = open_gates(model)
    gates["encoder.layers.0.self_attention"][1] = 0.0
    found = importance(model, batch(), gates)
    assert ("encoder.layers.0.self_attention", 1) not in found and len(found) == HEADS - 1
    assert all(p.grad is None for p in model.parameters())


def test_heads_are_pruned_one_by_one_the_least_important_first() -> None:
    model = small(TASK)
    stages = list(prune(model, batch()))
    left = [sum(int(gate.sum()) for gate in gates.values()) for gates in stages]
    assert left == list(range(HEADS, -1, -1))
    matters = importance(model, batch(), stages[0])
    (name, head) = min(matters, key=lambda which: matters[which])
    assert stages[1][name][head] == 0.0
    with gated(model, stages[-1]):  # without any head a translator does not hear its source
        source, target = batch().inputs
        other = Batch((source.flip(0), target), batch().labels)
        assert loss(model, other) == pytest.approx(loss(model, batch()))


def test_the_distance_is_0_of_like_1_of_disjoint_and_as_the_definition_has_it() -> None:
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.1, 0.2, 0.7])
    assert jensen_shannon(p, p) == 0
    assert jensen_shannon(p, torch.tensor([0.0, 0.0, 1.0])) == pytest.approx(1)
    middle = (p + q) / 2

    def divergence(x: torch.Tensor) -> float:
        return sum(float(a) * math.log2(a / b) for a, b in zip(x, middle, strict=True) if a > 0)

    expected = math.sqrt((divergence(p) + divergence(q)) / 2)
    assert jensen_shannon(p, q) == pytest.approx(expected, rel=1e-5)
    assert jensen_shannon(q, p) == jensen_shannon(p, q)


def test_heads_with_the_same_weights_look_alike_and_padding_is_not_asked() -> None:
    torch.manual_seed(1)
    model = small(TASK)
    apart = diversity(model, batch())
    assert 0 < apart < 1
    source, target = batch().inputs
    padded = Batch((torch.nn.functional.pad(source, (0, 3)), target), batch().labels)
    assert diversity(model, padded) == pytest.approx(apart, rel=1e-5)
    for attention in attentions(model).values():
        linear = attention.q if attention.cross else attention.qkv
        queries = linear.weight.data[: 2 * attention.d_k].unflatten(0, (2, -1))
        queries[1] = queries[0]
        keys = (attention.kv if attention.cross else attention.qkv).weight.data
        first = 0 if attention.cross else 2 * attention.d_k
        keys = keys[first : first + 2 * attention.d_k].unflatten(0, (2, -1))
        keys[1] = keys[0]
    assert diversity(model, batch()) == pytest.approx(0, abs=1e-3)
