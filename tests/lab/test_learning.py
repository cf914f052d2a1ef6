"""Tasks, models and training of the lab."""

from math import inf

import pytest
import torch
from torch import nn

from glassformer.data.batch import IGNORE
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.lab.learning import (
    HELD_OUT,
    Outputs,
    Plan,
    Task,
    TrainingRun,
    accuracy,
    gradient_norms,
    gradients,
    greedy_decode,
    loss,
    small_model,
    train,
)

TAGGER = Task("reverse", symbols=5, lengths=(3, 5))
TRANSLATOR = Task("reverse", "translator", symbols=5, lengths=(2, 4))


def test_examples_never_repeat_and_none_is_held_out() -> None:
    task = Task("copy", symbols=1000, lengths=(8, 8))
    rows = [row for step in range(3) for row in task.batch(4, step, 10).inputs[0].tolist()]
    rows += task.held_out(10).inputs[0].tolist()
    assert len(set(map(tuple, rows))) == 40
    again = task.batch(4, 2, 10).inputs[0]
    assert again.tolist() == rows[20:30]
    assert task.held_out(10).inputs[0].equal(task.batch(HELD_OUT, 0, 10).inputs[0])


def test_targets_of_a_translator_have_no_padding_between_labels() -> None:
    task = Task("recall", "translator", symbols=9, lengths=(6, 6))
    source, target = task.held_out(4).inputs
    assert PAD not in task.held_out(1).inputs[1]
    assert (target[:, 0] == BOS).all() and source.size(1) > target.size(1)


def test_training_reduces_the_loss_and_stops_at_the_goal() -> None:
    torch.manual_seed(0)
    model = small_model(Task("copy", symbols=4, lengths=(3, 3)))
    task = Task("copy", symbols=4, lengths=(3, 3))
    before = loss(model, task.held_out(64))
    plan = Plan(steps=60, batch=16, rate=1e-2, validate_every=10, stop_at=99.0)
    run = train(model, task, plan, seed=3)
    assert run.losses[-1] < 0.2 < run.losses[0]
    assert loss(model, task.held_out(64)) < before / 4
    assert run.accuracy == accuracy(model, task.held_out()) >= 99.0
    assert run.steps_to(99.0) == len(run.losses) == list(run.accuracies)[-1]
    assert not run.diverged and not model.training


def test_training_is_reproducible() -> None:
    def losses() -> list[float]:
        torch.manual_seed(1)
        return train(
            small_model(TAGGER, dropout=0.1), TAGGER, Plan(steps=3, batch=4), seed=2
        ).losses

    assert losses() == losses()


def test_divergence_is_recorded_not_raised() -> None:
    torch.manual_seed(0)
    model = small_model(TAGGER)
    with torch.no_grad():
        next(model.parameters()).fill_(1e30)
    run = train(model, TAGGER, Plan(steps=3, batch=4), seed=0)
    assert run.diverged and run.accuracy == 0.0 and run.steps_to(1.0) == inf


def test_steps_to_an_accuracy_count_to_its_first_validation() -> None:
    run = TrainingRun(accuracies={10: 40.0, 20: 91.0, 30: 89.0})
    assert run.steps_to(90) == 20 and run.steps_to(95) == inf
    assert run.accuracy == 89.0


def test_exact_match_counts_equal_outputs() -> None:
    decoded = Outputs([[5, 6], [7, 8, 9], []], [[5, 6], [7, 8], [9]])
    assert decoded.exact_match == pytest.approx(100 / 3)


def test_greedy_decoding_keeps_references_in_order() -> None:
    torch.manual_seed(0)
    model = small_model(TRANSLATOR)
    batch = TRANSLATOR.held_out(5)
    decoded = greedy_decode(model, batch)
    expected = [[i for i in row if i not in (IGNORE, EOS)] for row in batch.labels.tolist()]
    assert decoded.references == expected and len(decoded.outputs) == 5


def test_gradients_are_of_the_loss_per_label() -> None:
    torch.manual_seed(0)
    model, batch = small_model(TAGGER), TAGGER.held_out(3)
    logits = model(*batch.inputs)
    nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten()).backward()
    by_hand = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    with gradients(model, batch):
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, by_hand[name])
    assert all(p.grad is None for p in model.parameters())
    first = [g for name, g in by_hand.items() if name.startswith("encoder.layers.0.")]
    norm = torch.cat([g.flatten() for g in first]).norm().item()
    assert gradient_norms(model, batch)["encoder"][0] == pytest.approx(norm, rel=1e-4)


def test_small_models_take_settings_by_name() -> None:
    assert len(small_model(TRANSLATOR, decoder_layers=3).decoder.layers) == 3
    assert set(gradient_norms(small_model(TRANSLATOR), TRANSLATOR.held_out(2))) == {
        "encoder",
        "decoder",
    }
