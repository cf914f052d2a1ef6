"""Batches as tensors: what each kind of model reads, and what it must answer where."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from glassformer.data.batch import IGNORE, Batch, Examples, hide, pad, prefetch
from glassformer.data.ragged import Ragged
from glassformer.data.tokenizer import BOS, EOS, PAD, UNK

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
    "masked-language-model": (  # of which everything is hidden
        (WORDS,),
        ([[BOS, UNK, UNK, PAD], [BOS, UNK, UNK, UNK]],),
        [[IGNORE, 31, 32, IGNORE], [IGNORE, 11, 12, 13]],
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
MASKED = "masked-language-model"


def examples(kind: str, **options) -> Examples:
    options = {"hidden": float(kind == MASKED), **options}
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
    read, err = batch.inputs[1], batch.labels
    for row in range(3):
        n = int((err[row] != IGNORE).sum())
        assert read[row, 0] == BOS and err[row, n - 1] == EOS
        assert read[row, 1:n].tolist() == err[row, : n - 1].tolist()


@KINDS
def test_sides_drawn_anew_replace_those_stored(kind):
    asked = []

    def redraw(seed):
        asked.append(seed)
        return other.sides

    stored = examples(kind)
    sides = tuple(Ragged.of([[70 + s]] * 3) for s in range(len(stored.sides)))
    other = replace(stored, sides=sides)
    made = replace(stored, redraw=redraw).drawn(9)
    assert asked == [9] and made.drawn(8) is made
    assert made.lengths.tolist() == other.lengths.tolist()
    batch, expected = (e.batch(np.array([2, 0])) for e in (made, other))
    assert all(map(torch.equal, (*batch.inputs, batch.labels), (*expected.inputs, expected.labels)))


# What is hidden


def many(kind: str, hidden: float, rows: int = 40, seed: int = 0) -> Examples:
    """Texts of unequal lengths, in which some characters are not in the vocabulary."""
    random = np.random.default_rng(seed)
    lengths = random.integers(20, 60, rows)
    text = [[UNK, *random.integers(EOS + 1, 99, n).tolist()] for n in lengths]
    second = {"translator": text[::-1], "classifier": [[n % 3] for n in lengths], "tagger": text}
    sides = [text, second[kind]] if kind in second else [text]
    return Examples(kind, tuple(map(Ragged.of, sides)), hidden=hidden)


def whole(made: Examples, seed: int = 0) -> Batch:
    return made.batch(np.arange(len(made)), seed)


def tensors(batch: Batch) -> list[torch.Tensor]:
    return [*batch.inputs, batch.labels]


def equal(a: Batch, b: Batch) -> bool:
    return all(map(torch.equal, tensors(a), tensors(b)))


@KINDS
@pytest.mark.parametrize("share", [0.1, 0.9, 1.0])
def test_only_subwords_are_hidden_never_marks_or_padding(kind, share):
    read, hidden = whole(many(kind, 0.0)), whole(many(kind, share))
    for before, after in zip(read.inputs, hidden.inputs, strict=True):
        changed = before != after
        assert changed.any() and (after[changed] == UNK).all()
        assert (before[changed] > EOS).all()
        assert not (changed[before == BOS].any() or changed[before == PAD].any())


@KINDS
@pytest.mark.parametrize("share", [0.05, 0.2, 0.6])
def test_about_the_asked_share_is_hidden(kind, share):
    read, hidden = whole(many(kind, 0.0, 300)), whole(many(kind, share, 300), seed=7)
    for before, after in zip(read.inputs, hidden.inputs, strict=True):
        subwords = before > EOS
        assert subwords.sum() > 10_000
        assert float((before != after)[subwords].double().mean()) == pytest.approx(share, abs=0.02)


@KINDS
def test_what_is_hidden_is_a_function_of_the_seed_alone(kind):
    made, seeds = many(kind, 0.3), (0, 1, 2**31, 2**64 - 1)
    state = torch.get_rng_state()
    first = [whole(made, seed) for seed in seeds]
    assert torch.equal(torch.get_rng_state(), state), "the global random state is unchanged"
    torch.rand(5)
    again = [whole(made, seed) for seed in reversed(seeds)][::-1]
    assert all(map(equal, first, again))
    assert len({str(batch.inputs[0].tolist()) for batch in first}) == len(seeds)
    assert equal(whole(many(kind, 0.0)), whole(replace(made, hidden=0.0))), "what is stored stays"


@pytest.mark.parametrize("kind", [kind for kind in EXPECTED if kind != MASKED])
def test_what_others_must_answer_stays(kind):
    read, hidden = whole(many(kind, 0.0)), whole(many(kind, 0.5))
    assert torch.equal(hidden.labels, read.labels)
    assert not any(map(torch.equal, hidden.inputs, read.inputs))


def test_the_sides_of_a_pair_hide_each_their_own():
    texts = [[*range(10, 30)]] * 8
    batch = whole(Examples("translator", (Ragged.of(texts), Ragged.of(texts)), hidden=0.5))
    source, target = batch.inputs
    assert not torch.equal(source[:, :-1] == UNK, target[:, 1:] == UNK)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_a_masked_language_model_is_asked_for_the_hidden_and_nothing_else(share):
    read, hidden = whole(many(MASKED, 0.0)).inputs[0], whole(many(MASKED, share), seed=3)
    changed = hidden.inputs[0] != read
    assert torch.equal(hidden.labels[changed], read[changed])
    assert (hidden.labels[~changed] == IGNORE).all()
    assert hidden.n_labels == int(changed.sum())


@pytest.mark.parametrize("rows", [[[11, 12]], [[11, 12, 13], [UNK, 14]], [[UNK, UNK], [21, 22]]])
def test_every_batch_asks_a_masked_language_model_something(rows):
    """With a small share and short texts chance might hide nothing, and there would be no loss."""
    made = Examples(MASKED, (Ragged.of(rows),), hidden=1e-6)
    assert {whole(made, seed).n_labels for seed in range(50)} == {1}


def test_where_there_is_nothing_but_marks_nothing_is_hidden():
    ids = torch.tensor([[BOS, UNK, PAD], [BOS, UNK, EOS]])
    batch = hide(Batch((ids,), ids), 0.99, 1)
    assert torch.equal(batch.inputs[0], ids) and batch.n_labels == 0


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
