"""The grammar as a translation task."""

from collections import Counter

import torch

from glassformer.data import grammar
from glassformer.data.tokenizer import EOS
from glassformer.lab.learning import HELD_OUT, Outputs
from glassformer.lab.sentences import QUICK, Sentences, bleu, subwords, translation_setup

TASK = Sentences(pairs=60)


def sources(task: Sentences, seed: int, steps: range) -> Counter[str]:
    rows = (row for step in steps for row in task.batch(seed, step, 200).inputs[0].tolist())
    return Counter(subwords().decode(row) for row in rows)


def test_every_epoch_has_each_pair_of_its_seed_once() -> None:
    steps = 1
    while sum(sources(TASK, 3, range(steps)).values()) < TASK.pairs:
        steps += 1
    expected = Counter(pair.source for pair in grammar.pairs("train", TASK.pairs, seed=4))
    assert sources(TASK, 3, range(steps)) == expected
    assert sources(TASK, 3, range(steps, 2 * steps)) == expected
    assert sources(TASK, 5, range(steps)) != expected


def test_batches_fit_their_budget_and_repeat_for_a_seed() -> None:
    batches = [TASK.batch(0, step, 200) for step in range(12)]
    assert all(max(x.numel() for x in batch.inputs) <= 200 for batch in batches)
    again = [TASK.batch(0, step, 200) for step in range(12)]
    assert all(torch.equal(a.labels, b.labels) for a, b in zip(batches, again, strict=True))


def test_held_out_sentences_come_from_the_validation_split() -> None:
    batch = TASK.held_out(20)
    texts = [subwords().decode(row) for row in batch.inputs[0].tolist()]
    assert texts == [pair.source for pair in grammar.pairs("valid", 20)]
    assert len(TASK.examples(HELD_OUT, 5, 7)) == 7


def test_bleu_compares_decoded_texts() -> None:
    right = [[i for i in row if i > EOS] for row in TASK.held_out(8).labels.tolist()]
    assert bleu(Outputs(right, right)) > 99.9
    assert bleu(Outputs(right[::-1], right)) < 50


def test_a_setup_builds_a_model_for_its_task() -> None:
    model = translation_setup(quick=True).translator(n_heads=4)
    features = model.features(*QUICK.held_out().inputs)
    assert features.shape[0] == QUICK.held_out_size and features.shape[2] == QUICK.width
    assert model.output.out_features == len(subwords())
    assert translation_setup(quick=False).plan.steps > QUICK.plan.steps
