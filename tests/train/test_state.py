"""The state of a run comes back as it was, for every optimiser."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from glassformer.checkpoint import Checkpoint, read, weights_of, write
from glassformer.train.distributed import ALONE
from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.run import Run
from glassformer.train.start import start
from glassformer.train.state import MovingAverage, Position, capture, restore
from train.runs import assert_equal, tiny, trained, unexpected

POSITION = Position(step=7, epoch=2, batch=3, seconds=1.5, labels=99, unvalidated=True)


def after_a_few_updates(folder: Path, **settings: Any) -> Run:
    run, _ = trained(tiny(train={"max_steps": 3, **settings}), folder)
    return run


def captured(run: Run) -> Any:
    return capture(run.model, run.optimizers, POSITION, EarlyStopping("bleu", 4, 0.5, 2), None)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_what_is_captured_is_restored_through_a_file(tmp_path: Path, optimizer: str) -> None:
    run = after_a_few_updates(tmp_path / "a", optimizer=optimizer)
    saved = captured(run)
    write(Checkpoint(run.settings, weights_of(run.model), training=saved), tmp_path / "c")
    fresh = start(run.data, tmp_path / "b", ALONE, resume=False, notice=unexpected)
    back = read(tmp_path / "c", training=True).training
    assert back is not None
    assert restore(back, fresh.model, fresh.optimizers) == POSITION
    assert_equal(captured(fresh).tensors, saved.tensors)
    assert back.values["stopping"] == asdict(EarlyStopping("bleu", 4, 0.5, 2))
    for ours, theirs in zip(fresh.optimizers, run.optimizers, strict=True):
        assert len(ours.state) == len(theirs.state) > 0


def test_every_parameter_has_its_state_under_its_name(tmp_path: Path) -> None:
    run = after_a_few_updates(tmp_path, optimizer="muon")
    names = {name for name, _ in run.model.named_parameters()}
    owned = {path.partition("/")[2] for path in captured(run).tensors}
    assert owned == names
    matrices = [n for n in names if f"momentum_buffer/{n}" in captured(run).tensors]
    assert matrices and not any(f"exp_avg/{name}" in captured(run).tensors for name in matrices)


def test_a_captured_state_does_not_change_with_the_run(tmp_path: Path) -> None:
    run = after_a_few_updates(tmp_path)
    saved = captured(run)
    before = {name: tensor.clone() for name, tensor in saved.tensors.items()}
    position = replace(POSITION)
    for optimizer in run.optimizers:
        for state in optimizer.state.values():
            for value in state.values():
                value.add_(1)
    assert_equal(saved.tensors, before)
    assert saved.values["position"] == asdict(position)


def test_an_average_forgets_its_start_and_then_keeps_its_decay() -> None:
    model = torch.nn.Linear(2, 2)
    average, expected = MovingAverage(model, 0.9), model.weight.detach().double()
    for step in range(1, 200):
        torch.nn.init.normal_(model.weight)
        average.update(model, step)
        keep = min(0.9, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * model.weight.detach().double()
    assert_close(average.weights["weight"].double(), expected, rtol=0, atol=1e-6)
    assert not average.weights["weight"].requires_grad


def test_with_an_average_the_raw_weights_are_part_of_the_state(tmp_path: Path) -> None:
    run = after_a_few_updates(tmp_path / "a", ema=0.9)
    saved = capture(run.model, run.optimizers, POSITION, run.stopping, run.average)
    raw = {n.removeprefix("raw/"): t for n, t in saved.tensors.items() if n.startswith("raw/")}
    assert_equal(raw, dict(run.model.named_parameters()))
    fresh = start(run.data, tmp_path / "b", ALONE, resume=False, notice=unexpected)
    restore(saved, fresh.model, fresh.optimizers)
    assert_equal(weights_of(fresh.model), weights_of(run.model))
