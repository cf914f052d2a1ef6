"""The loop: it learns, stops for a reason, and leaves behind what it says it does."""

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from glassformer.checkpoint import RunFolder, as_tensors, read, weights_of, write
from glassformer.data.batch import Batch
from glassformer.data.batching import draw_seed
from glassformer.errors import CheckpointError, TrainingError
from glassformer.train import loop
from glassformer.train.batches import reading
from glassformer.train.distributed import ALONE
from glassformer.train.loop import train
from glassformer.train.meter import Meter
from glassformer.train.run import Run
from glassformer.train.schedule import factor
from glassformer.train.start import start
from glassformer.train.step import Update, train_step
from glassformer.train.validate import Evaluate, validate
from train.runs import (
    assert_equal,
    assert_same_bits,
    curve,
    latest,
    records,
    steps,
    tiny,
    trained,
    unexpected,
)


def scripted(metric: str, *scores: float) -> Evaluate:
    """Validations that go as written."""
    coming: Iterator[float] = iter(scores)
    return lambda model: {metric: next(coming)}


# Learning


def test_the_loss_falls_and_the_task_is_learned(tmp_path: Path) -> None:
    data = tiny(
        model={"kind": "tagger", "d_model": 32, "dropout": 0.0},
        data={"examples": 300, "batch_tokens": 256},
        train={"max_steps": 60, "learning_rate": 0.03, "validate_every": 60},
    )
    _, reason = trained(data, tmp_path)
    losses = curve(tmp_path)
    assert reason == "60 updates"
    assert losses[-1] < losses[0] / 2
    assert records(tmp_path, "valid_loss")[-1]["valid_accuracy"] > 95


def test_the_loop_is_nothing_but_updates_one_after_the_other(tmp_path: Path) -> None:
    data = tiny(model={"dropout": 0.1}, train={"accumulate": 2, "schedule": "linear"})
    run, _ = trained(data, tmp_path / "loop")
    by_hand, s = start(data, tmp_path / "hand", ALONE, False, unexpected), data.settings.train
    for step, batches in enumerate(islice(reading(by_hand), s.max_steps), 1):
        rate = factor("linear", step, s.warmup, s.max_steps)
        seeds = [draw_seed(s.seed, step, i) for i in range(2)]
        train_step(by_hand.objective, by_hand.optimizers, batches, seeds, rate, s.clip)
    assert_equal(weights_of(by_hand.model), weights_of(run.model))


def test_the_same_settings_give_the_same_bits_and_another_seed_others(tmp_path: Path) -> None:
    first, again, _ = (
        trained(tiny(model={"dropout": 0.2}, train={"seed": seed}), tmp_path / name)[0]
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]
    )
    assert_equal(weights_of(first.model), weights_of(again.model))
    assert records(tmp_path / "a") == records(tmp_path / "b")
    assert curve(tmp_path / "c") != curve(tmp_path / "a")


# Reasons to stop


def test_it_stops_after_max_steps_with_a_last_validation(tmp_path: Path) -> None:
    _, reason = trained(tiny(train={"max_steps": 6}), tmp_path)
    assert reason == "6 updates"
    assert [record["step"] for record in records(tmp_path, "valid_loss")] == [4, 6]
    assert steps(tmp_path) == [4, 6]


def test_it_stops_after_max_minutes_with_a_last_validation(tmp_path: Path) -> None:
    run, reason = trained(tiny(train={"max_minutes": 1e-6, "max_steps": 100}), tmp_path)
    assert reason == "1e-06 minutes"
    assert run.position.step == 1 and steps(tmp_path) == [1]
    assert len(records(tmp_path, "valid_loss")) == 1


def test_the_schedule_ends_with_the_minutes_if_they_end_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pace does not matter: as in 40 updates, until they take twice as long."""
    changes = {"max_minutes": 1, "max_steps": 1_000, "warmup": 4, "schedule": "linear"}
    data = tiny(train=changes)
    run = start(data, tmp_path, ALONE, False, unexpected)
    rates = []

    class Told(Meter):
        def add(self, update: Update, batches: list[Batch]) -> None:
            before = run.position.seconds
            super().add(update, batches)
            run.position.seconds = before + (1.5 if run.position.step <= 20 else 3.0)
            rates.append(update.rate / data.settings.train.learning_rate)

    monkeypatch.setattr(loop, "Meter", Told)
    assert train(run) == "1 minutes"
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates[19] == pytest.approx(1 - 16 / 36)
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert len(rates) == 30 and rates[-1] < 0.1


def test_minutes_without_end_end_nothing(tmp_path: Path) -> None:
    trained(tiny(train={"schedule": "cosine"}), tmp_path / "none")
    run, reason = trained(
        tiny(train={"schedule": "cosine", "max_minutes": float("inf")}), tmp_path / "inf"
    )
    assert reason == f"{run.settings.train.max_steps} updates"
    assert curve(tmp_path / "inf") == curve(tmp_path / "none")


@pytest.mark.parametrize(
    ("metric", "scores", "ended", "best"),
    [
        ("loss", [3, 2, 2.5, 2, 1], 4, 2),
        ("accuracy", [50, 60, 70, 70, 65, 99], 5, 3),
        ("bleu", [1, 0.5, 2, 3, 2, 2.5], 6, 4),
    ],
)
def test_it_stops_when_patience_is_over_and_best_is_the_best(
    tmp_path: Path, metric: str, scores: list[float], ended: int, best: int
) -> None:
    settings = {"metric": metric, "patience": 2, "validate_every": 1, "max_steps": 50}
    run, reason = trained(tiny(train=settings), tmp_path, evaluate=scripted(metric, *scores))
    assert reason == f"no better {metric} in 2 validations"
    assert run.position.step == ended
    assert (tmp_path / "best").resolve().name == f"step-{best:08d}"
    found = records(tmp_path, "valid_loss")
    assert [record[f"valid_{metric}"] for record in found] == scores[:ended]
    sign = -1 if metric == "loss" else 1
    assert [record["best"] for record in found] == [
        all(sign * score > sign * earlier for earlier in scores[:i])
        for i, score in enumerate(scores[:ended])
    ]


def test_a_run_that_is_over_stays_so_when_it_is_resumed(tmp_path: Path) -> None:
    trained(tiny(), tmp_path)
    before = (tmp_path / "log.jsonl").read_text()
    run, reason = trained(tiny(), tmp_path, resume=True)
    assert reason == "8 updates" and run.position.step == 8
    assert (tmp_path / "log.jsonl").read_text() == before


def test_a_run_without_checkpoints_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        trained(tiny(), tmp_path, resume=True)


# What it leaves behind


def test_the_log_tells_of_updates_and_validations(tmp_path: Path) -> None:
    data = tiny(train={"log_every": 2, "schedule": "cosine"})
    run, _ = trained(data, tmp_path / "pairs")
    trained(tiny(train={"schedule": "cosine"}), tmp_path / "each")
    each = [r for r in map(json.loads, log_lines(tmp_path / "each")) if "train_loss" in r]
    pairs = [r for r in map(json.loads, log_lines(tmp_path / "pairs")) if "train_loss" in r]
    names = ["train_loss", "labels_per_second", "gradient_norm", "learning_rate", "padding"]
    assert all(list(record) == ["step", "epoch", *names, "seconds"] for record in pairs)
    assert [record["step"] for record in pairs] == [2, 4, 6, 8]
    batches = list(islice(reading(start(tiny(), Path("unused"), ALONE, False, unexpected)), 8))
    for i, record in enumerate(pairs):
        both = each[2 * i : 2 * i + 2]
        labels = [sum(b.n_labels for b in batches[2 * i + j]) for j in range(2)]
        losses = [one["train_loss"] for one in both]
        weighted = sum(n * loss for n, loss in zip(labels, losses, strict=True)) / sum(labels)
        assert_close(record["train_loss"], weighted)
        assert_close(record["gradient_norm"], sum(one["gradient_norm"] for one in both) / 2)
        assert record["learning_rate"] == 0.01 * factor("cosine", record["step"], 2, 8)
        cells = [x for j in range(2) for b in batches[2 * i + j] for x in b.inputs]
        real = sum(int((x != 0).sum()) for x in cells) / sum(x.numel() for x in cells)
        assert_close(record["padding"], 1 - real)
        assert record["labels_per_second"] > 0
    assert [r["seconds"] for r in pairs] == sorted(r["seconds"] for r in pairs)
    assert run.position.labels == sum(b.n_labels for update in batches for b in update)


def log_lines(folder: Path) -> list[str]:
    return (folder / "log.jsonl").read_text().splitlines()


def test_a_validation_is_that_of_the_weights_it_saves(tmp_path: Path) -> None:
    data = tiny(train={"ema": 0.5})
    trained(data, tmp_path)
    for record in records(tmp_path, "valid_loss"):
        saved = read(tmp_path / f"step-{record['step']:08d}")
        scores = validate(saved.settings.model, saved.weights, data.valid, 64, None)
        assert {f"valid_{name}": score for name, score in scores.items()}.items() <= record.items()


def test_reports_are_the_records_of_the_log(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    train(start(tiny(), tmp_path, ALONE, False, unexpected), report=told.append)
    assert [json.dumps(record) for record in told] == log_lines(tmp_path)


@pytest.mark.parametrize("wanted", [False, True])
def test_attention_entropy_is_logged_on_request(tmp_path: Path, wanted: bool) -> None:
    trained(tiny(train={"attention_entropy": wanted, "max_steps": 1}), tmp_path)
    (record,) = records(tmp_path, "valid_loss")
    heads = [name for name in record if name.startswith("valid_entropy/")]
    assert len(heads) == (6 if wanted else 0)  # three attentions of two heads
    assert all(record[head] > 0 for head in heads)


def test_tensorboard_gets_the_same_figures(tmp_path: Path) -> None:
    trained(tiny(train={"tensorboard": True, "max_steps": 2}), tmp_path)
    (written,) = (tmp_path / "tensorboard").iterdir()
    assert b"train_loss" in written.read_bytes() and b"valid_accuracy" in written.read_bytes()


def test_a_checkpoint_holds_the_average_of_the_weights(tmp_path: Path) -> None:
    data = tiny(train={"ema": 0.8, "max_steps": 6})
    run = start(data, tmp_path, ALONE, False, unexpected)
    expected = {n: w.double().clone() for n, w in weights_of(run.model).items()}

    def follow(record: dict[str, Any]) -> None:
        if "train_loss" in record:
            keep = min(0.8, (1 + record["step"]) / (10 + record["step"]))
            for name, weight in weights_of(run.model).items():
                expected[name].mul_(keep).add_((1 - keep) * weight.double())

    train(run, report=follow)
    saved = latest(tmp_path)
    assert_close(
        {n: w.double() for n, w in as_tensors(saved.weights).items()}, expected, rtol=0, atol=1e-6
    )
    raw = weights_of(run.model)
    assert any(not np.array_equal(raw[name], saved.weights[name]) for name in raw)


def test_without_an_average_a_checkpoint_holds_the_weights(tmp_path: Path) -> None:
    run, _ = trained(tiny(), tmp_path)
    assert_equal(latest(tmp_path).weights, weights_of(run.model))


def test_only_the_last_few_checkpoints_and_the_best_stay(tmp_path: Path) -> None:
    settings = {"keep": 2, "validate_every": 1, "metric": "bleu", "max_steps": 6}
    trained(tiny(train=settings), tmp_path, evaluate=scripted("bleu", 1, 9, 3, 4, 5, 6))
    assert steps(tmp_path) == [2, 5, 6]


def test_a_run_goes_back_from_a_damaged_checkpoint_says_so_and_mends_it(tmp_path: Path) -> None:
    trained(tiny(), tmp_path / "whole")
    trained(tiny(), tmp_path / "hurt")
    damaged = tmp_path / "hurt" / "step-00000008" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    err: list[str] = []
    run = start(tiny(), tmp_path / "hurt", ALONE, True, err.append)
    assert run.position.step == 4
    assert len(err) == 1 and "step-00000008 is damaged: model.safetensors" in err[0]
    assert train(run) == "8 updates"
    assert_equal(RunFolder(tmp_path / "hurt").newest(unexpected).weights, weights_of(run.model))
    assert records(tmp_path / "hurt") == records(tmp_path / "whole")


def test_a_run_that_meets_nan_stops_and_its_checkpoints_stay_good(tmp_path: Path) -> None:
    run = start(tiny(train={"max_steps": 20}), tmp_path, ALONE, False, unexpected)

    def poison(record: dict[str, Any]) -> None:
        if record["step"] == 6 and "train_loss" in record:
            next(iter(run.model.encoder.layers.parameters())).data.fill_(float("nan"))

    with pytest.raises(TrainingError, match=r"first in encoder\.layers\.0\."):
        train(run, report=poison)
    good = RunFolder(tmp_path).newest(unexpected)
    assert all(np.isfinite(weight).all() for weight in good.weights.values())


def poison_average(run: Run) -> None:
    assert run.average is not None
    next(iter(run.average.weights.values())).fill_(float("inf"))


def poison_weights(run: Run) -> None:
    next(run.model.parameters()).data.fill_(float("nan"))


def poison_optimizer(run: Run) -> None:
    state = next(iter(run.optimizers[0].state.values()))
    state["exp_avg_sq"].fill_(float("inf"))


POISONS = [poison_weights, poison_average, poison_optimizer]


@pytest.mark.parametrize("step", [7, 8], ids=["by a signal", "by a validation"])
@pytest.mark.parametrize("poison", POISONS)
def test_what_is_not_finite_is_not_saved_and_the_last_good_checkpoint_is_resumed(
    tmp_path: Path, poison: Callable[[Run], None], step: int
) -> None:
    """Also where the validation after update 8 is the first to see it: before any other update."""
    data = tiny(train={"ema": 0.5})
    trained(data, tmp_path / "whole")
    run = start(data, tmp_path / "hurt", ALONE, False, unexpected)

    def spoil(record: dict[str, Any]) -> None:
        if record["step"] == step and "train_loss" in record:
            poison(run)
            if step == 7:
                signal.raise_signal(signal.SIGTERM)

    with pytest.raises(TrainingError, match=f"Update {step} is not saved") as caught:
        train(run, report=spoil)
    assert "goes on from step-00000004" in caught.value.remedy
    assert steps(tmp_path / "hurt") == [4]
    assert {(tmp_path / "hurt" / n).readlink().name for n in ("best", "latest")} == {
        "step-00000004"
    }
    trained(data, tmp_path / "hurt", resume=True)
    assert_same_bits(tmp_path / "hurt", tmp_path / "whole")


def test_a_folder_whose_latest_is_not_finite_resumes_from_before_it(tmp_path: Path) -> None:
    """As a run of an older version left it."""
    trained(tiny(), tmp_path / "whole")
    trained(tiny(), tmp_path / "hurt")
    bad = latest(tmp_path / "hurt")
    spoilt = {name: np.full_like(weight, np.nan) for name, weight in bad.weights.items()}
    write(replace(bad, weights=spoilt), tmp_path / "hurt" / "step-00000008")
    err: list[str] = []
    run = start(tiny(), tmp_path / "hurt", ALONE, True, err.append)
    assert run.position.step == 4
    assert len(err) == 1 and "step-00000008 cannot be resumed" in err[0]
    train(run)
    assert_same_bits(tmp_path / "hurt", tmp_path / "whole")


def test_a_score_that_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    settings = {"metric": "bleu", "validate_every": 2}
    nan = float("nan")
    trained(tiny(train=settings), tmp_path, evaluate=scripted("bleu", nan, 1.0, nan, 0.5))
    assert (tmp_path / "best").readlink().name == "step-00000004"
    trained(tiny(train=settings), tmp_path / "never", evaluate=scripted("bleu", *[nan] * 4))
    assert not (tmp_path / "never" / "best").exists()


def test_a_gradient_that_is_no_number_leaves_the_last_good_weights_on_disk(tmp_path: Path) -> None:
    run = start(tiny(), tmp_path, ALONE, False, unexpected)
    good: dict[str, torch.Tensor] = {}

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        if run.position.step == 3:
            good.update({n: w.clone() for n, w in weights_of(run.model).items()})
            return gradient * float("nan")
        return gradient

    next(iter(run.model.encoder.layers.parameters())).register_hook(spoil)
    with pytest.raises(TrainingError, match=r"first in encoder\.layers"):
        train(run)
    saved = latest(tmp_path)
    assert_equal(saved.weights, good)
    assert saved.training is not None
    assert saved.training.values["position"]["step"] == 2
    _, reason = trained(tiny(), tmp_path, resume=True)
    assert "updates" in reason


def test_a_signal_breaks_a_validation_off_which_is_then_made_up_for(tmp_path: Path) -> None:
    settings = {"metric": "accuracy"}
    trained(tiny(train=settings), tmp_path / "whole")

    def interrupted(model: torch.nn.Module) -> dict[str, float]:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("the signal ends the validation here")

    run, reason = trained(tiny(train=settings), tmp_path / "stopped", evaluate=interrupted)
    assert run.position.unvalidated and reason == f"signal {int(signal.SIGTERM)}"
    trained(tiny(train=settings), tmp_path / "stopped", resume=True)
    assert records(tmp_path / "stopped") == records(tmp_path / "whole")
    assert_equal(latest(tmp_path / "stopped").weights, latest(tmp_path / "whole").weights)
