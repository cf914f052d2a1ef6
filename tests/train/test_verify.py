"""--verify-resume proves what it says, and would notice if it were not so.

Most tests carry out its parts in this process; tests/cli/test_train.py starts the real ones.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from glassformer.errors import TrainingError
from glassformer.train import start, verify
from glassformer.train.verify import KILLED, STEPS, STOPPED, verify_resume
from train.runs import TINY, parts_in_this_process

NOTICES = 4  # one of each process

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"model": {"dropout": 0.2}},
    "a short run": {"train": {"max_steps": 3}},
    "a run of seconds": {"train": {"max_minutes": 1e-6}},
    "judged by BLEU": {"train": {"metric": "bleu", "patience": 1}},
    "averaged": {"train": {"ema": 0.8, "optimizer": "muon"}},
}


@pytest.fixture
def in_this_process() -> Iterator[None]:
    with parts_in_this_process():
        yield


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_it_passes_and_says_where_it_interrupted(settings: dict[str, Any]) -> None:
    err: list[str] = []
    verify_resume(TINY.replace(**settings), err.append)
    assert len(err) == NOTICES
    assert f"SIGTERM after {STOPPED}" in err[1] and f"SIGKILL after {KILLED}" in err[2]
    assert f"same bits after {STEPS}" in err[3]


@pytest.mark.parametrize("code", [0, 3, -9], ids=["too soon", "an error", "killed"])
def test_a_process_that_ends_otherwise_than_it_should_is_an_error(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The first is to end with code 0, and the third to be killed; these processes do not train."""
    last = "sys.argv[4] == '9'" if code == 0 else "True"
    end = f"os.kill(os.getpid(), {-code})" if code < 0 else f"sys.exit({code} if {last} else 0)"
    script = f"import os, sys; print('no room', file=sys.stderr); {end}"
    monkeypatch.setattr(verify, "PART", ("-c", script))
    with pytest.raises(TrainingError, match=f"ended with code {code}") as caught:
        verify_resume(TINY, lambda notice: None)
    assert caught.value.why == "no room" and "without --verify-resume" in caught.value.remedy


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("schedule", "minutes", "noted"),
    [("cosine", 5.0, 1), ("linear", 5.0, 1), ("inverse-sqrt", 5.0, 0), ("cosine", None, 0)],
)
def test_it_says_when_the_clock_has_a_say_in_the_rates(
    schedule: str, minutes: float | None, noted: int
) -> None:
    err: list[str] = []
    train = {"schedule": schedule, "max_minutes": minutes}
    verify_resume(TINY.replace(train=train), err.append)
    assert len(err) == noted + NOTICES
    for note in err[:noted]:
        assert f"train.schedule = {schedule!r}" in note and "train.max_minutes" in note
        assert "the check runs without that limit" in note


def forget_the_optimiser(saved: Any, model: Any, optimizers: Any, scaler: Any) -> Any:
    position = restore(saved, model, optimizers, scaler)
    for optimizer in optimizers:
        optimizer.state.clear()
    return position


def forget_the_place(saved: Any, model: Any, optimizers: Any, scaler: Any) -> Any:
    position = restore(saved, model, optimizers, scaler)
    position.batch = 0
    return position


def lose_a_bit(saved: Any, model: Any, optimizers: Any, scaler: Any) -> Any:
    position = restore(saved, model, optimizers, scaler)
    weight = next(model.parameters()).data.flatten()
    weight[0] = torch.nextafter(weight[0], weight[0] + 1)
    return position


restore = start.restore


def refusal(monkeypatch: pytest.MonkeyPatch, sabotage: Callable[..., Any], **settings: Any) -> Any:
    monkeypatch.setattr(start, "restore", sabotage)
    match = f"interrupted after {STOPPED} and {KILLED} updates did not end with the same bits"
    with parts_in_this_process(), pytest.raises(TrainingError, match=match) as caught:
        verify_resume(TINY.replace(**settings), lambda notice: None)
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
