"""The grammar as a task: pairs of a seed, all of them in an epoch, held-out ones apart."""

from collections import Counter

import torch

from glassformer.data import grammar
from glassformer.data.tokenizer import EOS
from glassformer.lab.learning import HELD_OUT, Said
from glassformer.lab.sentences import QUICK, Sentences, bleu, lesson, subwords

TASK = Sentences(pairs=60)


def sources(task: Sentences, seed: int, steps: range) -> Counter[str]:
    rows = (row for step in steps for row in task.batch(seed, step, 200).inputs[0].tolist())
    return Counter(subwords().decode(row) for row in rows)


def test_every_epoch_has_every_pair_of_the_seed_once() -> None:
    steps = 1
    while sum(sources(TASK, 3, range(steps)).values()) < TASK.pairs:
        steps += 1
    expected = Counter(pair.source for pair in grammar.pairs("train", TASK.pairs, seed=4))
    assert sources(TASK, 3, range(steps)) == expected
    assert sources(TASK, 3, range(steps, 2 * steps)) == expected
    assert sources(TASK, 5, range(steps)) != expected


def test_batches_keep_to_their_cells_and_come_in_another_order_each_epoch() -> None:
    batches = [TASK.batch(0, step, 200) for step in range(12)]
    assert all(max(x.numel() for x in batch.inputs) <= 200 for batch in batches)
    again = [TASK.batch(0, step, 200) for step in range(12)]
    assert all(torch.equal(a.labels, b.labels) for a, b in zip(batches, again, strict=True))


def test_held_out_sentences_are_of_another_split() -> None:
    batch = TASK.held_out(20)
    said = [subwords().decode(row) for row in batch.inputs[0].tolist()]
    assert said == [pair.source for pair in grammar.pairs("valid", 20)]
    assert len(TASK.examples(HELD_OUT, 5, 7)) == 7


def test_bleu_is_of_the_text_of_what_was_said() -> None:
    right = [[i for i in row if i > EOS] for row in TASK.held_out(8).labels.tolist()]
    assert bleu(Said(right, right)) > 99.9
    assert bleu(Said(right[::-1], right)) < 50


def test_a_lesson_builds_what_its_task_needs() -> None:
    model = lesson(quick=True).translator(n_heads=4)
    features = model.features(*QUICK.held_out().inputs)
    assert features.shape[0] == QUICK.asked and features.shape[2] == QUICK.width
    assert model.output.out_features == len(subwords())
    assert lesson(quick=False).plan.steps > QUICK.plan.steps
