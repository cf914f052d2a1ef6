"""The loss: torch's own cross-entropy to the last digit, without ever holding the logits."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.data.batch import IGNORE
from glassformer.measure import peak_bytes
from glassformer.train import loss
from glassformer.train.loss import smoothed_loss
from glassformer.train.precision import ShortLinear

D, V = 5, 13
EXACT = {"rtol": 0, "atol": 1e-10}


def problem(shape=(3, 7), bias=True, dtype=torch.float64, asked=0.7):
    """Features, an output layer and labels, of which some ask nothing."""
    features = torch.randn(*shape, D, dtype=dtype, requires_grad=True)
    labels = torch.randint(V, shape).masked_fill(torch.rand(shape) >= asked, IGNORE)
    return features, nn.Linear(D, V, bias).to(dtype), labels


def torch_loss(features, output, labels, smoothing):
    logits = output(features).reshape(-1, V)
    return F.cross_entropy(
        logits, labels.reshape(-1), ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum"
    )


def gradients(total, features, output):
    """Use three times the loss: the incoming gradient must count too."""
    return torch.autograd.grad(3 * total, [features, *output.parameters()])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 100], ids="{} rows a chunk".format)
def test_value_and_gradients_are_torchs(monkeypatch, smoothing, bias, rows):
    monkeypatch.setattr(loss, "CHUNK_CELLS", rows * V)
    given = problem(bias=bias)
    total, count = smoothed_loss(*given, smoothing)
    expected = torch_loss(*given, smoothing)
    torch.testing.assert_close(total, expected, **EXACT)
    assert count == int((given[2] != IGNORE).sum())
    for ours, theirs in zip(
        gradients(total, *given[:2]), gradients(expected, *given[:2]), strict=True
    ):
        torch.testing.assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9])
def test_chunks_may_end_anywhere(monkeypatch, count):
    given = problem((count,), asked=1.0)
    monkeypatch.setattr(loss, "CHUNK_CELLS", 4 * V + V - 1)  # four rows, and not quite five
    torch.testing.assert_close(smoothed_loss(*given, 0.1)[0], torch_loss(*given, 0.1), **EXACT)


def test_a_vocabulary_larger_than_a_chunk_goes_row_by_row(monkeypatch):
    monkeypatch.setattr(loss, "CHUNK_CELLS", V - 1)
    given = problem()
    torch.testing.assert_close(smoothed_loss(*given, 0.1)[0], torch_loss(*given, 0.1), **EXACT)


def test_the_gradients_are_those_of_finite_differences(monkeypatch):
    monkeypatch.setattr(loss, "CHUNK_CELLS", 3 * V)
    features, output, labels = problem((4,))

    def total(x, weight, bias):
        layer = nn.Linear(D, V).double()
        del layer.weight, layer.bias
        layer.weight, layer.bias = weight, bias
        return smoothed_loss(x, layer, labels, 0.2)[0]

    assert torch.autograd.gradcheck(total, (features, output.weight, output.bias))


def test_classes_need_no_sequence():
    given = problem((6,), asked=1.0)
    total, count = smoothed_loss(*given, 0.0)
    torch.testing.assert_close(total, torch_loss(*given, 0.0), **EXACT)
    assert count == 6


@pytest.mark.parametrize("bias", [True, False])
def test_without_a_question_the_loss_is_zero_and_so_are_the_gradients(bias):
    features, output, labels = problem(bias=bias, asked=0.0)
    total, count = smoothed_loss(features, output, labels, 0.1)
    assert (total.item(), count) == (0.0, 0)
    assert all(torch.equal(g, torch.zeros_like(g)) for g in gradients(total, features, output))


def test_a_large_logit_overflows_nothing():
    features, output, labels = problem(dtype=torch.float32)
    features = (features * 1e4).detach().requires_grad_()
    total, _ = smoothed_loss(features, output, labels, 0.1)
    torch.testing.assert_close(total, torch_loss(features, output, labels, 0.1))
    assert all(g.isfinite().all() for g in gradients(total, features, output))


def test_what_needs_no_gradient_gets_none():
    features, output, labels = problem()
    output.requires_grad_(False)
    total, _ = smoothed_loss(features, output, labels)
    total.backward()
    assert features.grad is not None
    assert output.weight.grad is None


def test_the_embedding_that_is_also_the_output_gets_both_gradients():
    embedding = nn.Embedding(V, D).double()
    output = nn.Linear(D, V, bias=False)
    output.weight = embedding.weight
    ids, labels = torch.randint(V, (2, 6)), torch.randint(V, (2, 6))
    (ours,) = torch.autograd.grad(
        smoothed_loss(embedding(ids), output, labels, 0.1)[0], embedding.weight
    )
    (theirs,) = torch.autograd.grad(
        torch_loss(embedding(ids), output, labels, 0.1), embedding.weight
    )
    torch.testing.assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("rows", [1, 100], ids="{} rows a chunk".format)
def test_products_may_be_of_another_type_than_what_is_between_them(monkeypatch, rows):
    """In double precision there is nothing to lose: all is as if nothing had been shortened."""
    features, output, labels = problem(dtype=torch.float32)
    monkeypatch.setattr(loss, "CHUNK_CELLS", rows * output.out_features)
    total, _ = smoothed_loss(features, ShortLinear(output, torch.float64), labels, 0.1)
    expected = torch_loss(features, output, labels, 0.1)
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(
        gradients(total, features, output), gradients(expected, features, output)
    )


def test_products_of_bf16_are_near(monkeypatch):
    # oneDNN's bf16 uses instructions that some virtual machines announce and then forbid
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    features, output, labels = problem(dtype=torch.float32)
    total, _ = smoothed_loss(features, ShortLinear(output, torch.bfloat16), labels, 0.1)
    expected = torch_loss(features, output, labels, 0.1)
    assert total.dtype == torch.float32 and total != expected
    torch.testing.assert_close(total, expected, rtol=1e-2, atol=0)
    of_both = gradients(total, features, output), gradients(expected, features, output)
    for ours, theirs in zip(*of_both, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


def large(monkeypatch, positions: int, width: int, words: int):
    """A loss over more than fits into a chunk, which is eight positions."""
    monkeypatch.setattr(loss, "CHUNK_CELLS", 8 * words)
    features = torch.randn(positions, width, requires_grad=True)
    output, labels = nn.Linear(width, words), torch.randint(words, (positions,))
    return output, lambda: smoothed_loss(features, output, labels, 0.1)[0]


def test_the_logits_never_exist_all_at_once(monkeypatch):
    positions, words = 2_000, 1_000
    output, total = large(monkeypatch, positions, D, words)
    logits = positions * words * output.weight.itemsize
    assert peak_bytes(lambda: total().backward()) < logits / 20


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_none_are_computed(monkeypatch, mode):
    output, total = large(monkeypatch, positions=32, width=256, words=1_000)
    with mode():
        assert peak_bytes(total) < output.weight.nbytes / 2  # as much again would be its gradient
        assert not total().requires_grad


def twice(count=4, asked=0.7):
    """Build two halves with the same labels and different features."""
    _, output, labels = problem((count,), asked=asked)
    return torch.randn(2 * count, D).double().requires_grad_(), output, labels.repeat(2)


def agreeing_loss(features, output, labels, smoothing, weight):
    """By torch's own operations: the mean of both halves, and the mean of both divergences."""
    first, second = output(features).log_softmax(-1)[labels != IGNORE].chunk(2)
    apart = F.kl_div(first, second, log_target=True, reduction="sum")
    apart = apart + F.kl_div(second, first, log_target=True, reduction="sum")
    return (torch_loss(features, output, labels, smoothing) + weight * apart / 2) / 2


@pytest.mark.parametrize("rows", [1, 3, 100], ids="{} rows a chunk".format)
@pytest.mark.parametrize("weight", [1.0, 5.0])
def test_agreement_is_the_divergence_of_both_halves(monkeypatch, rows, weight):
    monkeypatch.setattr(loss, "CHUNK_CELLS", 2 * rows * V)
    given = twice(9)
    total, count = smoothed_loss(*given, 0.1, weight)
    expected = agreeing_loss(*given, 0.1, weight)
    torch.testing.assert_close(total, expected, **EXACT)
    assert count == int((given[2] != IGNORE).sum()) // 2
    for ours, theirs in zip(
        gradients(total, *given[:2]), gradients(expected, *given[:2]), strict=True
    ):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_halves_that_agree_cost_what_one_of_them_does():
    features, output, labels = problem()
    one, n = smoothed_loss(features, output, labels, 0.1)
    both, m = smoothed_loss(features.repeat(2, 1, 1), output, labels.repeat(2, 1), 0.1, 5.0)
    torch.testing.assert_close(one, both, **EXACT)
    assert n == m
