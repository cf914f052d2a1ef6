"""One update: many batches are as one, and nothing that is no number ever reaches a weight."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from jaxtyping import config as jaxtyping
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from glassformer.checkpoint import weights_of
from glassformer.data.batch import IGNORE, Batch
from glassformer.errors import TrainingError
from glassformer.model.build import build
from glassformer.train.optimizer import build_optimizers
from glassformer.train.precision import shorten_products
from glassformer.train.step import Objective, Update, train_step
from train.runs import assert_equal, tiny

SMOOTHING, CLIP = 0.1, 1e9
DATA = tiny(model={"dropout": 0.0})
ONE = [list(range(12))]
SPLITS = [[[*range(6)], [*range(6, 12)]], [[0], [*range(1, 12)]], [[i] for i in range(12)]]


def batches(split: Sequence[Sequence[int]]) -> list[Batch]:
    return [DATA.train.batch(torch.tensor(indices).numpy()) for indices in split]


def objective(dtype: torch.dtype = torch.float64, **changes: Any) -> Objective:
    torch.manual_seed(0)
    return Objective(build(DATA.settings.model, **changes).to(dtype), SMOOTHING)


def adamw(module: nn.Module) -> list[torch.optim.Optimizer]:
    return build_optimizers(module, "adamw", 0.01, 0.02, 0.01, (0.9, 0.98))


def descent(module: nn.Module) -> list[torch.optim.Optimizer]:
    """θ ← θ - ∇: what the weights move by is the gradient."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    optimizer.param_groups[0]["peak"] = 1.0
    return [optimizer]


def step(
    module: nn.Module,
    split: Sequence[Sequence[int]] = ONE,
    optimizers: list[torch.optim.Optimizer] | None = None,
    *,
    clip: float = CLIP,
    seed: int = 1,
) -> Update:
    optimizers = descent(module) if optimizers is None else optimizers
    seeds = range(seed, seed + 100)
    return train_step(module, optimizers, batches(split), seeds, 1.0, clip)


def moved(module: nn.Module, **options: Any) -> dict[str, Tensor]:
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    step(module, **options)
    return {name: before[name] - p.detach() for name, p in module.named_parameters()}


def test_the_gradient_is_that_of_torchs_smoothed_cross_entropy() -> None:
    module, twin = objective(), objective()
    (batch,) = batches(ONE)
    logits = twin.model(*batch.inputs).flatten(0, 1)
    labels = batch.labels.flatten()
    loss = F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=SMOOTHING)
    loss.backward()
    gradients = moved(module)
    for name, parameter in twin.named_parameters():
        assert_close(gradients[name], parameter.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("split", SPLITS, ids=["halves", "unequal", "one by one"])
def test_accumulated_batches_are_as_one_large_batch(split: list[list[int]]) -> None:
    assert len({batch.n_labels for batch in batches(split)}) > 1  # means of means would show
    one, many = moved(objective()), moved(objective(), split=split)
    assert_close(many, one, rtol=0, atol=1e-10)

    alone, parts = objective(), objective()
    of_alone, of_parts = adamw(alone), adamw(parts)
    for _ in range(3):
        a, b = step(alone, ONE, of_alone, clip=0.5), step(parts, split, of_parts, clip=0.5)
        assert a.labels == b.labels
        assert_close((a.loss, a.gradient_norm), (b.loss, b.gradient_norm), rtol=0, atol=1e-10)
    assert_close(weights_of(parts), weights_of(alone), rtol=0, atol=1e-10)


def test_an_update_tells_of_itself() -> None:
    module = objective()
    (batch,) = batches(ONE)
    with torch.no_grad():
        loss = module(batch.labels, *batch.inputs) / batch.n_labels
    gradients = moved(objective())
    norm = torch.cat([g.flatten() for g in gradients.values()]).norm()
    optimizers = adamw(module)
    update = train_step(module, optimizers, [batch], [1], 0.5, CLIP)
    assert_close(update.loss, float(loss))
    assert_close(update.gradient_norm, float(norm))
    assert update.labels == batch.n_labels == int((batch.labels != IGNORE).sum())
    assert update.rate == 0.005 == optimizers[0].param_groups[0]["lr"]


@pytest.mark.parametrize("share", [0.1, 0.9, 1.1])
def test_a_gradient_longer_than_clip_is_shortened_to_it(share: float) -> None:
    free = moved(objective())
    norm = step(objective()).gradient_norm
    clipped = moved(objective(), clip=share * norm)
    factor = min(1.0, share)
    assert_close(clipped, {n: g * factor for n, g in free.items()}, rtol=1e-5, atol=1e-12)
    assert step(objective(), clip=share * norm).gradient_norm == norm  # as it was, for the log


def test_gradients_do_not_carry_over_to_the_next_update() -> None:
    module, fresh = objective(), objective()
    step(module)
    fresh.load_state_dict(module.state_dict())
    assert_equal(moved(module), moved(fresh))


# What is no number


class Spoilt(nn.Module):
    """An objective whose loss is off by `by`: added to it, or as a factor of it."""

    def __init__(self, inner: Objective, by: float, added: bool) -> None:
        super().__init__()
        self.model, self.inner, self.by, self.added = inner.model, [inner], by, added

    def forward(self, *arguments: Tensor) -> Tensor:
        (inner,) = self.inner
        loss = inner(*arguments)
        return loss + self.by if self.added else loss * self.by


def refusal(module: nn.Module, optimizers: list[torch.optim.Optimizer]) -> TrainingError:
    """Check the error; every bit of the weights and of the optimiser's state must stay."""
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    state = {
        id(p): {k: v.clone() for k, v in s.items()} for o in optimizers for p, s in o.state.items()
    }
    with pytest.raises(TrainingError) as caught:
        step(module, SPLITS[0], optimizers)
    for name, parameter in module.named_parameters():
        assert torch.equal(bits(parameter), bits(before[name])), name
    for optimizer in optimizers:
        for parameter, values in optimizer.state.items():
            assert_equal(values, state[id(parameter)])
    assert "None was made" in caught.value.why
    assert "train.learning_rate" in caught.value.remedy and "--resume" in caught.value.remedy
    return caught.value


def bits(tensor: Tensor) -> Tensor:
    return tensor.detach().view(torch.int64)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("places", [(3,), (5, 9), (2, -1)])
def test_the_first_bad_weight_is_named_and_no_update_made(
    places: tuple[int, ...], value: float
) -> None:
    module = objective()
    optimizers = adamw(module)
    step(module, ONE, optimizers)
    names = [name for name, _ in module.model.named_parameters()]
    for place in reversed(places):
        dict(module.model.named_parameters())[names[place]].data.flatten()[0] = value
    error = refusal(module, optimizers)
    assert error.what.endswith(f"first in {names[places[0]]}.")


def test_a_gradient_that_is_no_number_names_its_first_parameter() -> None:
    inner = objective()
    module = Spoilt(inner, float("nan"), added=False)
    error = refusal(module, adamw(module))
    first = next(iter(dict(inner.model.named_parameters())))
    assert "loss is nan" in error.what and error.what.endswith(f"first in {first}.")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_although_every_gradient_is_one(value: float) -> None:
    module = Spoilt(objective(), value, added=True)
    error = refusal(module, adamw(module))
    assert f"loss is {value}" in error.what and error.what.endswith("first in the loss.")


def test_one_bad_batch_of_an_update_is_enough() -> None:
    inner = objective()
    module = Spoilt(inner, 1.0, added=False)
    calls = iter([1.0, float("inf")])
    module.register_forward_pre_hook(lambda m, _: setattr(m, "by", next(calls)))
    refusal(module, adamw(module))


# Precision and randomness


def test_bf16_computes_in_bf16_and_keeps_the_weights_in_fp32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # oneDNN's bf16 uses instructions that some virtual machines announce and then forbid
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    module, full = objective(torch.float32), objective(torch.float32)
    shorten_products(module.model, torch.bfloat16)
    optimizers, of_full = adamw(module), adamw(full)
    for _ in range(3):
        low = step(module, SPLITS[0], optimizers, clip=1.0)
        high = step(full, SPLITS[0], of_full, clip=1.0)
        assert low.loss != high.loss
        assert_close(low.loss, high.loss, rtol=0.02, atol=0)
    assert {p.dtype for p in module.parameters()} == {torch.float32}


def test_an_update_is_a_function_of_its_seeds() -> None:
    def weights(seed: int, draws: int = 0) -> dict[str, Tensor]:
        module = objective(torch.float32, dropout=0.3)
        torch.rand(draws)  # what was drawn before does not matter
        step(module, SPLITS[0], adamw(module), seed=seed)
        return weights_of(module)

    assert_equal(weights(1), weights(1, draws=5))
    assert not torch.equal(
        *(weights(seed)["model.encoder.layers.0.self_attention.qkv.weight"] for seed in (1, 2))
    )


def test_two_passes_that_must_agree_have_their_own_dropout() -> None:
    """Without dropout they are one pass; with it they part, and that is what it costs."""
    (batch,) = batches(ONE)

    def losses(dropout: float) -> list[float]:
        model = build(DATA.settings.model, dropout=dropout).double()
        found = []
        for weight in (0.0, 1e-9, 5.0):
            torch.manual_seed(1)
            found.append(Objective(model, SMOOTHING, weight)(batch.labels, *batch.inputs).item())
        return found

    once, twice, agreeing = losses(0.0)
    assert once == pytest.approx(twice, rel=1e-9) == pytest.approx(agreeing, rel=1e-9)
    once, twice, agreeing = losses(0.3)
    assert agreeing > 1.001 * twice


@pytest.mark.parametrize("kind", ["translator", "tagger"])
def test_compiled_code_serves_every_shape(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Each batch has a shape of its own: code tied to one would be compiled anew, then given up."""
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    monkeypatch.setattr(jaxtyping, "jaxtyping_disable", True)  # no compiler sees through checks
    torch._dynamo.reset()
    data = tiny(model={"kind": kind})
    module = Objective(build(data.settings.model), SMOOTHING, compiled=True)
    shapes = [data.train.batch(torch.arange(i, i + 2 + i).numpy()) for i in range(6)]
    assert len({batch.inputs[0].shape for batch in shapes}) > 3
    compiled = []
    for batch in shapes:
        module(batch.labels, *batch.inputs).backward()
        compiled.append(len(graphs))
    torch._dynamo.reset()
    assert compiled[-1] == compiled[1] <= 2
