"""Half and double precision run forward and back, and the same seed gives the same bits."""

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equivalence.variants import (
    DECODERS,
    KINDS,
    POSITIONS,
    SEAMS,
    Cached,
    batch,
    gradients,
    randomised,
    sentences,
    shrunk,
    toy_settings,
)
from glassformer.config import PRESETS, ModelSettings
from glassformer.model.build import Model, build

SETTINGS = {name: shrunk(name, dropout=0.0) for name in PRESETS} | {
    f"{positions}, {attention}": shrunk(
        "tiny", dropout=0.0, positions=positions, attention=attention
    )
    for positions in POSITIONS
    for attention in SEAMS["attention"]
}
each_model = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
each_kernel = pytest.mark.parametrize("attention", SEAMS["attention"])
BFLOAT16 = torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.fixture(autouse=True)
def _no_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bfloat16 uses instructions (AMX) that some virtual machines announce and then forbid."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


def float32_model(settings: ModelSettings) -> Model:
    return randomised(build(settings)).eval()


def distance(x: Iterable[Tensor], y: Iterable[Tensor]) -> float:
    """|x - y| / |y|, which is NaN if anything is."""
    a, b = (torch.cat([t.flatten().double() for t in tensors]) for tensors in (x, y))
    return ((a - b).norm() / b.norm()).item()


def assert_near(result: list[Tensor], expected: list[Tensor], near: float) -> None:
    """In the output, and ten times less near in the gradients: a ReLU may fall to either side."""
    assert distance(result[:1], expected[:1]) < near
    assert distance(result[1:], expected[1:]) < 10 * near


def output_and_gradients(model: Model, ids: tuple[Tensor, ...]) -> list[Tensor]:
    output = model(*ids)
    return [output, *gradients(model, output)]


@each_model
def test_autocast_to_bfloat16_stays_near_float32(settings: ModelSettings) -> None:
    model, ids = float32_model(settings), batch(settings.kind)
    with BFLOAT16:
        output = model(*ids)
    result = [output, *gradients(model, output)]
    assert output.dtype == torch.bfloat16
    assert {gradient.dtype for gradient in result[1:]} == {torch.float32}
    assert_near(result, output_and_gradients(model, ids), 0.02)


@each_model
@pytest.mark.parametrize(("dtype", "near"), [(torch.bfloat16, 0.02), (torch.float64, 1e-6)])
def test_a_whole_model_runs_in_another_precision(
    settings: ModelSettings, dtype: torch.dtype, near: float
) -> None:
    model, ids = float32_model(settings), batch(settings.kind)
    expected = output_and_gradients(model, ids)
    result = output_and_gradients(model.to(dtype), ids)
    assert {x.dtype for x in result} == {dtype}
    assert_near(result, expected, near)


@pytest.mark.parametrize("kind", DECODERS)
@each_kernel
@torch.inference_mode()
def test_a_cache_works_under_autocast(kind: str, attention: str) -> None:
    model = float32_model(toy_settings(kind=kind, attention=attention, positions="alibi"))
    *source, target = [sentences(5, 5) for _ in batch(kind)]
    expected = model(*source, target)
    with BFLOAT16:
        cached = Cached(model, source, 2, capacity=5)
        steps = [cached.step(ids) for ids in target.split(1, dim=1)]
    assert distance(steps, [expected.transpose(0, 1)]) < 0.02


@pytest.mark.parametrize("kind", KINDS)
@each_kernel
def test_the_same_seed_gives_the_same_bits_with_dropout_on(kind: str, attention: str) -> None:
    shares = {"dropout": 0.2, "attention_dropout": 0.2, "feed_forward_dropout": 0.2}
    settings, ids = toy_settings(kind=kind, attention=attention, **shares), batch(kind)

    def run(**changes: bool) -> list[Tensor]:
        torch.manual_seed(1)
        return output_and_gradients(build(settings, **changes).train(), ids)

    first, *others = run(), run(), run(activation_checkpointing=True)
    for other in others:
        assert_close(other, first, atol=0.0, rtol=0.0)
    model = build(settings).train()
    assert not torch.equal(model(*ids), model(*ids))
