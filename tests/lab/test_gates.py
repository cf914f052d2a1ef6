"""Gates on heads: importance, pruning, diversity."""

import pytest
import torch

from glassformer.data.batch import Batch
from glassformer.inspect.masking import gated
from glassformer.lab.gates import diversity, importance, open_gates, prune
from glassformer.lab.learning import Task, loss, small_model
from glassformer.model.attention import attentions
from glassformer.train.step import Objective

TASK = Task("reverse", "translator", lengths=(2, 5))
HEADS = 3 * 2 * 2  # attentions of a layer of each stack, two layers, two heads


def batch() -> Batch:
    return TASK.held_out(4)


def test_a_closed_gate_equals_zero_columns_in_the_output_projection() -> None:
    model = small_model(TASK).eval()
    gates = open_gates(model)
    gates["encoder.layers.1.self_attention"][0] = 0.0
    with gated(model, gates), torch.no_grad():
        shut = model(*batch().inputs)
    attention = attentions(model)["encoder.layers.1.self_attention"]
    with torch.no_grad():
        attention.output.weight[:, : attention.d_k] = 0.0
        torch.testing.assert_close(shut, model(*batch().inputs))


def test_open_gates_change_nothing_and_kernels_are_restored_after_an_error() -> None:
    model = small_model(TASK).eval()
    before, kernels = model(*batch().inputs), [a.kernel for a in attentions(model).values()]
    with pytest.raises(RuntimeError), gated(model, open_gates(model)):
        assert torch.equal(model(*batch().inputs), before)
        raise RuntimeError
    assert [a.kernel for a in attentions(model).values()] == kernels


def test_importance_is_the_finite_difference_of_each_sentence_loss() -> None:
    model, asked, step = small_model(TASK).double().eval(), batch(), 1e-5
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


def test_importance_leaves_no_gradients_and_skips_closed_gates() -> None:
    model = small_model(TASK)
    gates = open_gates(model)
    gates["encoder.layers.0.self_attention"][1] = 0.0
    found = importance(model, batch(), gates)
    assert ("encoder.layers.0.self_attention", 1) not in found and len(found) == HEADS - 1
    assert all(p.grad is None for p in model.parameters())


def test_heads_are_pruned_one_by_one_the_least_important_first() -> None:
    model = small_model(TASK)
    stages = list(prune(model, batch()))
    left = [sum(int(gate.sum()) for gate in gates.values()) for gates in stages]
    assert left == list(range(HEADS, -1, -1))
    matters = importance(model, batch(), stages[0])
    (name, head) = min(matters, key=lambda which: matters[which])
    assert stages[1][name][head] == 0.0
    with gated(model, stages[-1]):  # without heads the source cannot reach the decoder
        source, target = batch().inputs
        other = Batch((source.flip(0), target), batch().labels)
        assert loss(model, other) == pytest.approx(loss(model, batch()))


def test_diversity_is_zero_for_equal_heads_and_ignores_padding() -> None:
    torch.manual_seed(1)
    model = small_model(TASK)
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
