"""Registered variants: settings name them, build and training use them, checkpoints load again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer import registry
from glassformer.config import ModelSettings
from glassformer.errors import CheckpointError, InputError, SettingsError
from glassformer.model.attention import attentions, scaled_dot_product_attention
from glassformer.model.positions import NoPositions
from glassformer.pipeline import load
from glassformer.train.schedule import factor
from train.runs import PAIRS, text

TINY = {"d_model": 8, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}


class Slope(NoPositions):
    """Minus the distance, for every head."""

    def __init__(self, n_heads: int, bidirectional: bool) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(n_heads))
        self.bidirectional = bidirectional

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return -self.slope[:, None, None] * (k_positions - q_positions[:, None]).abs()


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget after each test what it registers."""
    monkeypatch.setattr(registry, "_registered", {kind: {} for kind in registry.KINDS})
    monkeypatch.setattr(registry, "_imported", set())
    yield


def test_a_scheme_is_built_with_the_arguments_that_it_names() -> None:
    gf.register("positions", "slope", Slope)
    model = gf.build("tiny", positions="slope", **TINY)
    own = model.encoder.positions, model.decoder.positions
    assert all(isinstance(one, Slope) and len(one.slope) == 2 for one in own)
    assert [one.bidirectional for one in own] == [True, False]


def test_norm_feed_forward_and_kernel_are_taken_by_name() -> None:
    def kernel(*args: object) -> object:
        return scaled_dot_product_attention(*args)

    class Doubled(nn.Linear):
        def __init__(self, d_model: int) -> None:
            super().__init__(d_model, d_model)

    gf.register("norm", "none", lambda d_model: nn.Identity())
    gf.register("feed_forwards", "one-matrix", Doubled)
    gf.register("attention", "mine", kernel)
    own = {"norm": "none", "feed_forward": "one-matrix", "attention": "mine"}
    model = gf.build("tiny", **own, **TINY)
    assert not any(isinstance(m, gf.LayerNorm) for m in model.modules())
    assert any(isinstance(m, Doubled) for m in model.modules())
    assert {attention.kernel for attention in attentions(model).values()} == {kernel}


def test_a_schedule_is_asked_after_the_warm_up() -> None:
    gf.register("schedule", "halved", lambda step, warmup, total: 0.5)
    assert [factor("halved", step, 4, 100) for step in (2, 4, 50)] == [0.5, 0.5, 0.5]


def test_a_run_with_own_positions_optimizer_and_metric_is_resumed_and_loaded(
    tmp_path: Path,
) -> None:
    gf.register("positions", "slope", Slope)
    gf.register(
        "optimizer",
        "sgd",
        lambda model, learning_rate: torch.optim.SGD(model.parameters(), learning_rate),
    )
    seen: list[int] = []

    def exact(outputs: list[str], references: list[str]) -> float:
        seen.append(len(outputs))
        return 100 * sum(map(str.__eq__, outputs, references)) / len(outputs)

    gf.register("metric", "exact", exact)
    own = {"optimizer": "sgd", "metric": "exact", "max_steps": 4}
    settings = text(tmp_path, model={"positions": "slope"}, train=own)
    run = gf.train(settings, run=tmp_path / "run", progress=False)
    assert run.metric == "exact" and run.best == 0.0 and seen == [12]
    more = settings.replace(train={"max_steps": 8})
    assert gf.train(more, run=tmp_path / "run", resume=True, progress=False).steps == 8
    source = PAIRS[0][0]
    assert load(tmp_path / "run").translate(source) == load(
        tmp_path / "run", engine="torch"
    ).translate(source)
    with pytest.raises(InputError, match="has a registered positions"):
        load(tmp_path / "run", engine="compiled")
    registry._registered["positions"].clear()
    with pytest.raises(
        CheckpointError, match=r"not registered: model\.positions = 'slope'"
    ) as caught:
        load(tmp_path / "run")
    assert "gf.register(" in caught.value.remedy and registry.VARIABLE in caught.value.remedy


def test_a_misspelt_variant_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"(?s)or a registered name.*did you mean 'sinusoidal'"):
        ModelSettings.of(positions="sinusoidl")


def test_a_module_named_in_the_environment_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_norms.py").write_text(
        "import glassformer as gf\ngf.register('norm', 'mine', object)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(registry.VARIABLE, "my_norms")
    assert ModelSettings.of(norm="mine").norm == "mine"
    monkeypatch.setenv(registry.VARIABLE, "no_such_module")
    with pytest.raises(SettingsError, match="'no_such_module', which cannot be imported"):
        ModelSettings.of(norm="other")


@pytest.mark.parametrize(
    ("kind", "name", "what", "message"),
    [
        ("position", "a", Slope, "no kind of variant 'position'(?s:.*)'positions'"),
        ("norm", "", Slope, "cannot be registered as ''"),
        ("norm", "a", 3, "3 cannot be registered as 'a'"),
    ],
)
def test_what_cannot_be_registered_is_refused(
    kind: str, name: str, what: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        gf.register(kind, name, what)
