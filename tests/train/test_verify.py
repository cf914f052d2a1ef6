"""--verify-resume proves what it says, and would notice if it were not so."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.errors import TrainingError
from glassformer.train import loop
from glassformer.train.verify import STEPS, STOPS, verify_resume
from train.runs import tiny

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"model": {"dropout": 0.2}},
    "a short run": {"train": {"max_steps": 3}},
    "a run of seconds": {"train": {"max_minutes": 1e-6}},
    "judged by BLEU": {"train": {"metric": "bleu", "patience": 1}},
    "averaged": {"train": {"ema": 0.8, "optimizer": "muon"}},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_it_passes_and_says_where_it_interrupted(settings: dict[str, Any]) -> None:
    said: list[str] = []
    verify_resume(tiny(**settings), said.append)
    assert len(said) == len(STOPS)
    for stop, notice in zip(STOPS, said, strict=True):
        assert f"after {stop} updates" in notice and f"same bits after {STEPS}" in notice


@pytest.mark.parametrize(
    ("schedule", "minutes", "noted"),
    [("cosine", 5.0, 1), ("linear", 5.0, 1), ("inverse-sqrt", 5.0, 0), ("cosine", None, 0)],
)
def test_it_says_when_the_clock_has_a_say_in_the_rates(
    schedule: str, minutes: float | None, noted: int
) -> None:
    said: list[str] = []
    verify_resume(tiny(train={"schedule": schedule, "max_minutes": minutes}), said.append)
    assert len(said) == noted + len(STOPS)
    for note in said[:noted]:
        assert f"train.schedule = {schedule!r}" in note and "train.max_minutes" in note
        assert "proven is the run without that limit" in note


def forget_the_optimiser(saved: Any, model: Any, optimizers: Any) -> Any:
    position = restore(saved, model, optimizers)
    for optimizer in optimizers:
        optimizer.state.clear()
    return position


def forget_the_place(saved: Any, model: Any, optimizers: Any) -> Any:
    position = restore(saved, model, optimizers)
    position.batch = 0
    return position


def lose_a_bit(saved: Any, model: Any, optimizers: Any) -> Any:
    position = restore(saved, model, optimizers)
    weight = next(model.parameters()).data.flatten()
    weight[0] = torch.nextafter(weight[0], weight[0] + 1)
    return position


restore = loop.restore


def refusal(monkeypatch: pytest.MonkeyPatch, sabotage: Callable[..., Any], **settings: Any) -> Any:
    monkeypatch.setattr(loop, "restore", sabotage)
    with pytest.raises(TrainingError, match=r"interrupted after 3 updates did not go on") as caught:
        verify_resume(tiny(**settings), lambda notice: None)
    return caught.value


@pytest.mark.parametrize("sabotage", [forget_the_optimiser, forget_the_place, lose_a_bit])
def test_it_fails_when_resuming_is_sabotaged(
    monkeypatch: pytest.MonkeyPatch, sabotage: Callable[..., Any]
) -> None:
    error = refusal(monkeypatch, sabotage)
    assert "tensors differ" in error.why
    assert "train.threads" in error.remedy


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_it_would_fail_on_any_settings(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """A run too short to be interrupted proves nothing."""
    refusal(monkeypatch, forget_the_place, **settings)
