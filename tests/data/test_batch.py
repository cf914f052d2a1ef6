"""Batches as tensors: what each kind of model reads, and what it must answer where."""

import threading
import time

import numpy as np
import pytest
import torch

from glassformer.data.batch import IGNORE, Batch, Examples, pad, prefetch
from glassformer.data.ragged import Ragged
from glassformer.data.tokenizer import BOS, EOS, PAD

WORDS = [[11, 12, 13], [21], [31, 32]]
OTHERS = [[41], [51, 52, 53], [61, 62]]

# examples 2 and 0 of WORDS (and OTHERS), in that order
EXPECTED = {
    "translator": (
        (WORDS, OTHERS),
        ([[31, 32, EOS, PAD], [11, 12, 13, EOS]], [[BOS, 61, 62], [BOS, 41, PAD]]),
        [[61, 62, EOS], [41, EOS, IGNORE]],
    ),
    "language-model": (
        (WORDS,),
        ([[BOS, 31, 32, PAD], [BOS, 11, 12, 13]],),
        [[31, 32, EOS, IGNORE], [11, 12, 13, EOS]],
    ),
    "classifier": (
        (WORDS, [[1], [0], [2]]),
        ([[BOS, 31, 32, PAD], [BOS, 11, 12, 13]],),
        [2, 1],
    ),
    "tagger": (
        (WORDS, [[PAD, 5, 6], [7], [8, PAD]]),
        ([[31, 32, PAD], [11, 12, 13]],),
        [[8, IGNORE, IGNORE], [IGNORE, 5, 6]],
    ),
}
KINDS = pytest.mark.parametrize("kind", EXPECTED)


def examples(kind: str, **options) -> Examples:
    return Examples(kind, tuple(map(Ragged.of, EXPECTED[kind][0])), **options)


@KINDS
def test_inputs_and_labels_stand_where_they_should(kind):
    _, inputs, labels = EXPECTED[kind]
    batch = examples(kind).batch(np.array([2, 0]))
    assert [x.tolist() for x in batch.inputs] == list(inputs)
    assert batch.labels.tolist() == labels
    assert {x.dtype for x in (*batch.inputs, batch.labels)} == {torch.int64}


@KINDS
def test_labels_and_padding_are_counted(kind):
    _, inputs, labels = EXPECTED[kind]
    batch = examples(kind).batch(np.array([2, 0]))
    flat = np.ravel(labels).tolist()
    assert batch.n_labels == len(flat) - flat.count(IGNORE)
    cells = [cell for side in inputs for row in side for cell in row]
    assert batch.padding == (len(cells) - cells.count(PAD), len(cells))


@KINDS
def test_lengths_are_those_of_the_tensors_with_their_marks(kind):
    made = examples(kind)
    assert len(made) == len(WORDS)
    for i, lengths in enumerate(made.lengths.tolist()):
        inputs = made.batch(np.array([i])).inputs
        assert lengths[: len(inputs)] == [x.size(1) for x in inputs]


def test_a_position_asks_for_what_the_decoder_reads_next():
    batch = examples("translator").batch(np.arange(3))
    read, said = batch.inputs[1], batch.labels
    for row in range(3):
        n = int((said[row] != IGNORE).sum())
        assert read[row, 0] == BOS and said[row, n - 1] == EOS
        assert read[row, 1:n].tolist() == said[row, : n - 1].tolist()


@KINDS
def test_resampled_sides_replace_those_stored(kind):
    asked = []

    def resample(side, rows, seed):
        asked.append((side, rows.tolist(), seed))
        return [[70 + side] for _ in rows]

    made = examples(kind, resample=resample)
    batch = made.batch(np.array([2, 0]), seed=9)
    assert asked == [(side, [2, 0], 9) for side in range(len(made.sides))]
    plain = Examples(kind, tuple(Ragged.of([[70 + s]] * 2) for s in range(len(made.sides))))
    expected = plain.batch(np.array([0, 1]))
    assert all(map(torch.equal, (*batch.inputs, batch.labels), (*expected.inputs, expected.labels)))


@pytest.mark.parametrize("filler", [PAD, IGNORE])
def test_padding_stands_behind_the_shorter_rows(filler):
    rows = [[1, 2, 3], np.array([4], np.uint16), []]
    assert pad(rows, filler).tolist() == [[1, 2, 3], [4, filler, filler], [filler] * 3]


def test_a_batch_without_a_question_has_no_labels():
    assert Batch((torch.ones(1, 2),), torch.full((1, 2), IGNORE)).n_labels == 0


def test_prefetching_keeps_the_items_and_their_order():
    assert list(prefetch(iter(range(50)))) == list(range(50))
    assert list(prefetch(iter([]))) == []
    assert list(prefetch(iter([None, 0, False]))) == [None, 0, False]


def test_prefetching_makes_one_item_ahead_and_no_more():
    made = []
    ahead = prefetch(made.append(i) or i for i in range(9))
    for taken in range(1, 5):
        next(ahead)
        deadline = time.monotonic() + 5
        while len(made) <= taken and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)  # time enough to make more, were it to
        assert made == list(range(taken + 1))
    ahead.close()


def test_items_are_made_by_another_thread():
    def threads():
        yield threading.current_thread()

    assert next(prefetch(threads())) is not threading.current_thread()


def test_prefetching_passes_exceptions_on_after_the_items_before_them():
    def items():
        yield 1
        raise ZeroDivisionError("as made")

    ahead = prefetch(items())
    assert next(ahead) == 1
    with pytest.raises(ZeroDivisionError, match="as made"):
        next(ahead)


def test_whoever_stops_early_leaves_no_thread_behind():
    before = threading.active_count()
    ahead = prefetch(iter(range(9)))
    next(ahead)
    ahead.close()
    assert threading.active_count() == before
