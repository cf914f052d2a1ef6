"""Optimisers: Muon as torch has it, every weight in one group, and rates that follow a schedule."""

import pytest
import torch
from torch import nn

from glassformer.config import ModelSettings
from glassformer.model.build import build
from glassformer.train.optimizer import (
    BatchedMuon,
    build_optimizers,
    layer_matrices,
    orthogonalise,
    set_rate,
)

COEFFICIENTS = torch.optim.Muon([nn.Parameter(torch.ones(1, 1))]).defaults["ns_coefficients"]
SHAPES = [(6, 6), (6, 6), (4, 9), (9, 4), (4, 9), (1, 5)]
MODELS = [
    {"kind": "translator"},
    {"kind": "translator", "tie_source_target": False, "tie_target_output": False},
    {"kind": "translator", "positions": "learned", "attention_bias": True},
    {"kind": "translator", "positions": "relative", "norm": "rms-norm", "feed_forward": "swiglu"},
    {"kind": "language-model"},
    {"kind": "classifier", "residual": "post-norm"},
    {"kind": "tagger"},
    {"kind": "masked-language-model"},
    {"kind": "masked-language-model", "tie_target_output": False},
]
EVERY_MODEL = pytest.mark.parametrize("changes", MODELS, ids=str)
BOTH = pytest.mark.parametrize("kind", ["adamw", "muon"])


def model_of(changes) -> nn.Module:
    sizes = {"vocab_size": 20, "d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 2}
    return build(ModelSettings.of(**sizes, decoder_layers=2, **changes))


def optimizers_of(model: nn.Module, kind: str) -> list[torch.optim.Optimizer]:
    return build_optimizers(model, kind, 1e-3, 2e-2, 0.1, (0.9, 0.98))


def newton_schulz(x, steps, eps):
    """One matrix, as Jordan wrote it down, in its own precision."""
    a, b, c = COEFFICIENTS
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / max(float(x.norm()), eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + b * gram @ x + c * gram @ gram @ x
    return x.T if tall else x


class PlainMuon:
    """The algorithm of torch.optim.Muon, matrix by matrix in full precision."""

    def __init__(self, parameters, lr, weight_decay, momentum, nesterov):
        self.parameters, self.lr, self.decay = parameters, lr, weight_decay
        self.momentum, self.nesterov = momentum, nesterov
        self.averages = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self):
        for p, average in zip(self.parameters, self.averages, strict=True):
            average.mul_(self.momentum).add_(p.grad, alpha=1 - self.momentum)
            update = average
            if self.nesterov:
                update = (1 - self.momentum) * p.grad + self.momentum * average
            p.mul_(1 - self.lr * self.decay)
            scale = max(1, p.size(0) / p.size(1)) ** 0.5
            p.sub_(self.lr * scale * newton_schulz(update, 5, 1e-7))


def after_steps(optimizer, parameters, steps=4, seed=1):
    """The parameters after each of some updates along the gradients of `seed`."""
    generator = torch.Generator().manual_seed(seed)
    path = []
    for _ in range(steps):
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)
        optimizer.step()
        path.append([p.detach().clone() for p in parameters])
    return path


def started(dtype):
    torch.manual_seed(3)
    return [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in SHAPES]


def paths(other, dtype, **options):
    ours, theirs = started(dtype), started(dtype)
    return (
        after_steps(BatchedMuon(ours, **options), ours),
        after_steps(other(theirs, **options), theirs),
    )


@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_is_the_algorithm_in_full_precision(nesterov):
    options = {"lr": 0.1, "weight_decay": 0.2, "momentum": 0.9, "nesterov": nesterov}
    for ours, theirs in zip(*paths(PlainMuon, torch.float64, **options), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("products", [None, torch.bfloat16], ids=str)
def test_muon_is_torchs_up_to_its_bf16(products):
    options = {"lr": 0.1, "weight_decay": 0.2, "momentum": 0.9}
    mine, others = started(torch.float32), started(torch.float32)
    ours = after_steps(BatchedMuon(mine, products, **options), mine)
    theirs = after_steps(torch.optim.Muon(others, **options), others)
    before = [p.detach() for p in started(torch.float32)]
    for mine, other in zip(ours, theirs, strict=True):
        for start, a, b in zip(before, mine, other, strict=True):
            assert (a - b).norm() < 2e-2 * (b - start).norm()


def test_muon_passes_over_what_has_no_gradient():
    parameters = [nn.Parameter(torch.ones(3, 3)) for _ in range(2)]
    parameters[0].grad = torch.randn(3, 3)
    BatchedMuon(parameters, lr=0.1).step()
    assert not torch.equal(parameters[0], torch.ones(3, 3))
    assert torch.equal(parameters[1], torch.ones(3, 3))


@pytest.mark.parametrize("interrupted", [False, True])
def test_muon_goes_on_from_its_saved_state(interrupted):
    parameters = started(torch.float64)
    optimizer = BatchedMuon(parameters, lr=0.1)
    after_steps(optimizer, parameters, 2, seed=1)
    if interrupted:
        state = optimizer.state_dict()
        optimizer = BatchedMuon(parameters, lr=0.7)
        optimizer.load_state_dict(state)
    resumed = after_steps(optimizer, parameters, 2, seed=2)[-1]
    whole = started(torch.float64)
    plain = PlainMuon(whole, 0.1, optimizer.defaults["weight_decay"], 0.95, nesterov=True)
    after_steps(plain, whole, 2, seed=1)
    expected = after_steps(plain, whole, 2, seed=2)[-1]
    torch.testing.assert_close(resumed, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8), (24, 20)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape):
    x = torch.randn(3, *shape) * torch.tensor([1e-3, 1.0, 1e3])[:, None, None]
    made = orthogonalise(x, COEFFICIENTS, 5, 1e-7)
    values = torch.linalg.svdvals(made)
    assert made.shape == x.shape
    assert values.min() > 0.5 and values.max() < 1.5


def test_orthogonalising_keeps_the_singular_vectors():
    x = torch.randn(2, 5, 7, dtype=torch.float64)
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    core = u.mT @ orthogonalise(x, COEFFICIENTS, 5, 1e-7) @ v.mT
    diagonal = torch.diagonal(core, dim1=1, dim2=2)
    torch.testing.assert_close(core, torch.diag_embed(diagonal), rtol=0, atol=1e-10)


def test_a_batch_is_orthogonalised_matrix_by_matrix():
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    together = orthogonalise(x, COEFFICIENTS, 5, 1e-7)
    alone = torch.stack([newton_schulz(matrix, 5, 1e-7) for matrix in x])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_a_matrix_of_zeros_stays_one():
    assert torch.equal(
        orthogonalise(torch.zeros(1, 3, 4), COEFFICIENTS, 5, 1e-7), torch.zeros(1, 3, 4)
    )


@EVERY_MODEL
def test_layer_matrices_are_the_weights_of_attention_and_feed_forward(changes):
    model = model_of(changes)
    names = {id(p): n for n, p in model.named_parameters()}
    chosen = {names[id(p)] for p in layer_matrices(model)}
    expected = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and ".layers." in name
    }
    assert chosen == expected != set()
    assert len(layer_matrices(model)) == len(chosen)


@BOTH
@EVERY_MODEL
def test_every_parameter_is_in_one_group_of_one_optimizer(kind, changes):
    model = model_of(changes)
    groups = [group for o in optimizers_of(model, kind) for group in o.param_groups]
    held = [id(p) for group in groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())


@BOTH
@EVERY_MODEL
def test_matrices_decay_and_gains_and_biases_do_not(kind, changes):
    for optimizer in optimizers_of(model_of(changes), kind):
        for group in optimizer.param_groups:
            for p in group["params"]:
                assert group["weight_decay"] == (0.1 if p.dim() > 1 else 0.0)


def test_the_matrices_of_the_layers_are_muons_and_the_rest_is_adamws():
    model = model_of(MODELS[0])
    adamw, muon = optimizers_of(model, "muon")
    assert isinstance(adamw, torch.optim.AdamW) and isinstance(muon, BatchedMuon)
    held = {id(p) for group in muon.param_groups for p in group["params"]}
    assert held == {id(p) for p in layer_matrices(model)}
    assert {group["lr"] for group in adamw.param_groups} == {1e-3}
    assert {group["lr"] for group in muon.param_groups} == {2e-2}
    assert {group["betas"] for group in adamw.param_groups} == {(0.9, 0.98)}


def test_adamw_alone_has_everything():
    (only,) = optimizers_of(model_of(MODELS[0]), "adamw")
    assert isinstance(only, torch.optim.AdamW)
    assert all(group["fused"] for group in only.param_groups)


@BOTH
def test_set_rate_scales_every_peak_whatever_was_set_before(kind):
    optimizers = optimizers_of(model_of(MODELS[0]), kind)
    peaks = [group["lr"] for o in optimizers for group in o.param_groups]
    for factor in (0.5, 0.0, 1.0, 0.25):
        assert set_rate(optimizers, factor) == pytest.approx(1e-3 * factor)
        rates = [group["lr"] for o in optimizers for group in o.param_groups]
        assert rates == pytest.approx([peak * factor for peak in peaks])


@BOTH
def test_a_rate_of_zero_changes_no_weight(kind):
    model = model_of(MODELS[0])
    before = [p.detach().clone() for p in model.parameters()]
    optimizers = optimizers_of(model, kind)
    set_rate(optimizers, 0.0)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    for optimizer in optimizers:
        optimizer.step()
    assert all(map(torch.equal, before, model.parameters()))
