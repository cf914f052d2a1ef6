"""Experiments on a device: every model that learns is there, and nothing is left on the CPU."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

from glassformer.lab import experiments, learning
from glassformer.lab.experiment import Arm, Budget, Measurement
from glassformer.lab.trials import model_device, models_on
from standin import standing_in

ON_THE_CPU = {"cost", "grouped-heads"}  # grouped-heads: its speed, not the models that learn


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Run the first arm of each experiment, on the stand-in, and train for two steps."""

    def few(trial: Any, arms: list[Arm], budget: Budget, tick: Any) -> list[Measurement]:
        return [m for arm in arms[:1] for m in trial(arm, 0, True)]

    def briefly(model: Any, task: Any, plan: Any, seed: int, held_out: Any = None) -> Any:
        assert {p.device for p in model.parameters()} == {model_device()}
        plan = replace(plan, steps=2, validate_every=2)
        return learning.train(model, task, plan, seed, held_out)

    for name in experiments.names():
        module = import_module(experiments.find(name).measure.__module__)
        monkeypatch.setattr(module, "run_trials", few)
        monkeypatch.setattr(module, "train", briefly, raising=name not in ON_THE_CPU)
    with standing_in() as there, models_on(there):
        yield there


@pytest.mark.parametrize("name", [n for n in experiments.names() if n not in ON_THE_CPU])
def test_an_experiment_learns_on_the_device_of_the_run(name: str, device: torch.device) -> None:
    found = experiments.find(name).measure(Budget(quick=True, seeds=(0,)), lambda share: None)
    assert found and all(isinstance(m.value, float) for m in found)


def test_models_that_share_keys_learn_on_the_device(device: torch.device) -> None:
    module: Any = import_module("glassformer.lab.experiments.grouped_heads")
    found = list(module.quality({module.KV: 1}, 0, True))
    assert {m.quantity for m in found} == {module.BLEU, module.ACCURACY}
