"""Tasks, models and training that experiments share."""

from math import inf

import pytest
import torch
from torch import nn

from glassformer.data.batch import IGNORE, Batch
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.lab.learning import (
    HELD_OUT,
    Learned,
    Plan,
    Said,
    Task,
    accuracy,
    gradient_norms,
    gradients,
    greedy_accuracy,
    learn,
    loss,
    say,
    settings,
    small,
)

TAGGER = Task("reverse", symbols=5, lengths=(3, 5))
TRANSLATOR = Task("reverse", "translator", symbols=5, lengths=(2, 4))


def test_no_example_comes_twice_and_none_is_held_out() -> None:
    task = Task("copy", symbols=1000, lengths=(8, 8))
    rows = [row for step in range(3) for row in task.batch(4, step, 10).inputs[0].tolist()]
    rows += task.held_out(10).inputs[0].tolist()
    assert len(set(map(tuple, rows))) == 40
    again = task.batch(4, 2, 10).inputs[0]
    assert again.tolist() == rows[20:30]
    assert task.held_out(10).inputs[0].equal(task.batch(HELD_OUT, 0, 10).inputs[0])


def test_a_translator_is_asked_for_the_answers_alone() -> None:
    task = Task("recall", "translator", symbols=9, lengths=(6, 6))
    source, target = task.held_out(4).inputs
    assert PAD not in task.held_out(1).inputs[1]
    assert (target[:, 0] == BOS).all() and source.size(1) > target.size(1)


def test_a_model_learns_through_the_step_of_the_library() -> None:
    torch.manual_seed(0)
    model = small(Task("copy", symbols=4, lengths=(3, 3)))
    task = Task("copy", symbols=4, lengths=(3, 3))
    before = loss(model, task.held_out(64))
    plan = Plan(steps=60, batch=16, rate=1e-2, look_every=10, enough=99.0)
    learned = learn(model, task, plan, seed=3)
    assert learned.losses[-1] < 0.2 < learned.losses[0]
    assert loss(model, task.held_out(64)) < before / 4
    assert learned.accuracy == accuracy(model, task.held_out()) >= 99.0
    assert learned.steps_to(99.0) == len(learned.losses) == list(learned.looks)[-1]
    assert not learned.diverged and not model.training


def test_training_is_the_same_every_time() -> None:
    def losses() -> list[float]:
        torch.manual_seed(1)
        return learn(small(TAGGER, dropout=0.1), TAGGER, Plan(steps=3, batch=4), seed=2).losses

    assert losses() == losses()


def test_divergence_is_told_not_raised() -> None:
    torch.manual_seed(0)
    model = small(TAGGER)
    with torch.no_grad():
        next(model.parameters()).fill_(1e30)
    learned = learn(model, TAGGER, Plan(steps=3, batch=4), seed=0)
    assert learned.diverged and learned.accuracy == 0.0 and learned.steps_to(1.0) == inf


def test_what_is_changed_is_changed_in_every_batch() -> None:
    seen: list[int] = []

    def change(batch: Batch) -> Batch:
        seen.append(len(batch.labels))
        return batch

    learn(small(TAGGER), TAGGER, Plan(steps=2, batch=4), 0, change, TAGGER.held_out(9))
    assert seen == [9, 4, 4]


def test_steps_are_counted_to_the_first_look_that_found_it() -> None:
    learned = Learned(looks={10: 40.0, 20: 91.0, 30: 89.0})
    assert learned.steps_to(90) == 20 and learned.steps_to(95) == inf
    assert learned.accuracy == 89.0


def test_greedy_answers_are_scored_against_the_right_ones() -> None:
    said = Said([[5, 6], [7, 8, 9], []], [[5, 6], [7, 8], [9]])
    assert said.sequences == pytest.approx(100 / 3)
    assert said.tokens == pytest.approx(100 * 4 / 5)


def test_answers_come_from_the_search_and_stand_beside_their_sources() -> None:
    torch.manual_seed(0)
    model = small(TRANSLATOR)
    batch = TRANSLATOR.held_out(5)
    said = say(model, batch)
    wanted = [[i for i in row if i not in (IGNORE, EOS)] for row in batch.labels.tolist()]
    assert said.right == wanted
    assert len(said.answers) == 5
    assert greedy_accuracy(model, TRANSLATOR, 5) == said.sequences


def test_gradients_are_those_of_the_loss_per_label() -> None:
    torch.manual_seed(0)
    model, batch = small(TAGGER), TAGGER.held_out(3)
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
    assert settings(TAGGER, n_heads=4).n_heads == 4
    assert len(small(TRANSLATOR, decoder_layers=3).decoder.layers) == 3
    assert set(gradient_norms(small(TRANSLATOR), TRANSLATOR.held_out(2))) == {"encoder", "decoder"}
