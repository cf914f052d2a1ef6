"""What holds of decoding in float32 for every variant: an answer is a sentence's own.

all seams (504 translators)     a padded batch, cached, is told what the textbook's beam search
                                tells each sentence, with the whole model run again at every step
positions × heads × kernel      batches of 1 to 64 in any order; greedy search; forced scores;
                                prefixes of different lengths; beams as wide as the tree
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from decode.oracles import After, after, assert_same, beam, exhaustive, remembering
from equivalence.variants import ALL, ATTENTION, PAIRS, Case, toy, variants
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode import packed
from glassformer.decode.packed import can_pack, pack
from glassformer.decode.replay import Speaker, record
from glassformer.decode.search import Hypothesis, SearchOptions, force_decode, search
from glassformer.model import attention
from glassformer.model.build import Model

pytestmark = pytest.mark.usefixtures("unchecked")

LENGTHS, LIMIT = (4, 1, 6), 4
PREFIXES = [[], [5, 6, 5], [7]]
WAYS: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"beam_size": 3, "n_best": 3},
    {"sample": True, "n_best": 2},
]
Found = list[list[Hypothesis]]


def each(selection: list[Case], other_kinds: Iterable[str] = ("language-model",)) -> Any:
    """The selection for the translator, which has every part, and pairs for the language model."""
    parameters = variants(selection, "translator") + variants(PAIRS, *other_kinds)
    return pytest.mark.parametrize("variant", parameters)


def model_of(variant: Case, **changes: Any) -> Any:
    """In float32, and with outputs of their own, so that it does not only repeat its input."""
    return toy(**{"tie_target_output": False, "max_positions": 16} | variant | changes).float()


def sources(*lengths: int, vocab_size: int = 11) -> list[list[int]]:
    return [[*torch.randint(EOS + 1, vocab_size, (n,)).tolist(), EOS] for n in lengths]


class Asked:
    """A model with questions for it: sources, or prefixes alone for a language model."""

    def __init__(self, variant: Case, *lengths: int, **changes: Any) -> None:
        self.model: Model = model_of(variant, **changes)
        self.has_source = variant["kind"] == "translator"
        self.sources = sources(*lengths, vocab_size=changes.get("vocab_size", 11))
        self.prefixes = [list(PREFIXES[i % 3]) for i in range(len(lengths))]
        if self.has_source:
            self.prefixes = [[] for _ in lengths]

    def answers(self, rows: Iterable[int], padding: int = 0, **options: Any) -> Found:
        """To the questions of these rows in one batch, with so much padding more than it needs."""
        rows = list(rows)
        source = F.pad(pad([self.sources[i] for i in rows]), (0, padding), value=PAD)
        return search(
            self.model,
            source if self.has_source else None,
            BOS,
            EOS,
            SearchOptions(**{"max_length": LIMIT, **options}),
            [self.prefixes[i] for i in rows],
            rows,
        )

    def textbook(self, row: int, width: int, n: int) -> list[Hypothesis]:
        return beam(self.after(row), width, LIMIT, n=n, prefix=self.prefixes[row])

    def after(self, row: int) -> After:
        return remembering(after(self.model, self.sources[row] if self.has_source else None))


@each(ALL)
def test_cached_in_a_padded_batch_it_is_the_textbooks_search(variant: Case) -> None:
    asked = Asked(variant, *LENGTHS, decoder_layers=1)
    found = asked.answers(range(3), padding=1, beam_size=3, n_best=2)
    assert_same(found, [asked.textbook(row, 3, n=2) for row in range(3)])


@each(ATTENTION)
def test_a_beam_of_one_is_greedy_search(variant: Case) -> None:
    asked = Asked(variant, *LENGTHS)
    found = asked.answers(range(3), beam_size=1)
    assert_same(found, [asked.textbook(row, 1, n=1) for row in range(3)])


@each(ATTENTION)
def test_answers_do_not_depend_on_batch_order_or_padding(variant: Case) -> None:
    """Some of 64 questions alone and in small batches, and all of them shuffled in one."""
    asked = Asked(variant, *[4, 1, 6, 2, 5, 3, 7, 4] * 8)
    order = torch.randperm(64).tolist()
    for way in WAYS:
        found = dict(zip(order, asked.answers(order, padding=2, **way), strict=True))
        for rows in ([0], [5, 1], [2, 3, 4, 6, 7]):
            assert_same(asked.answers(rows, **way), [found[row] for row in rows])


@each(ATTENTION)
def test_a_forced_decoding_gives_the_same_scores_and_the_best_come_first(variant: Case) -> None:
    asked = Asked(variant, *LENGTHS)
    asked.prefixes = PREFIXES
    for way in WAYS:
        for row, hypotheses in enumerate(asked.answers(range(3), **way)):
            totals = forced(asked, row, hypotheses)
            assert [h.log_probability for h in hypotheses] == pytest.approx(totals, abs=1e-5)
            scores = [h.score for h in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert all(h.ids[: len(PREFIXES[row])] == PREFIXES[row] for h in hypotheses)
            assert not {PAD, BOS, EOS} & set(chain(*(h.ids for h in hypotheses)))
            said = {(*h.ids, h.complete) for h in hypotheses}
            assert "sample" in way or len(said) == len(hypotheses)


def forced(asked: Asked, row: int, hypotheses: list[Hypothesis]) -> list[float]:
    target = pad([[*h.ids, *([EOS] if h.complete else [])] for h in hypotheses])
    source = pad([asked.sources[row]] * len(target)) if asked.has_source else None
    scores: Tensor = force_decode(asked.model, source, target, BOS)
    return scores.double().masked_fill(target == PAD, 0.0).sum(1).tolist()


@each(ATTENTION)
def test_prefixes_of_different_lengths_are_as_in_the_textbook(variant: Case) -> None:
    asked = Asked(variant, *LENGTHS)
    asked.prefixes = PREFIXES
    found = asked.answers(range(3), beam_size=3, n_best=2)
    assert_same(found, [asked.textbook(row, 3, n=2) for row in range(3)])


@each(PAIRS)
def test_a_beam_as_wide_as_the_tree_is_an_exhaustive_search(variant: Case) -> None:
    """Two words and the end, three times: at most twelve candidates."""
    asked = Asked(variant, 3, 1, vocab_size=5)
    asked.prefixes = [[], []]
    trees = [asked.after(row) for row in range(2)]
    for alpha in (-0.5, 0.0, 0.6, 2.0):
        options = {"beam_size": 12, "n_best": 12, "length_penalty": alpha, "max_length": 3}
        found = asked.answers(range(2), **options)
        assert_same(found, [exhaustive(one, 5, 3, alpha)[:12] for one in trees])


@each(ATTENTION)
def test_recorded_it_gives_the_same_answers_to_other_batches(
    variant: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is recorded with three sentences of different lengths is played back to others."""
    monkeypatch.setattr(attention, "MANY_HEADS", 8)
    asked = Asked(variant, *LENGTHS, 6, 2)
    groups: list[list[int]] = [[0, 1, 2], [3], [0, 1, 2, 3, 4], [2, 3]]
    way = {"beam_size": 3, "n_best": 3}
    plain = [asked.answers(rows, **way) for rows in groups]
    assert isinstance(asked.model, Speaker)
    record(asked.model, often=0)
    for rows, expected in zip(groups, plain, strict=True):
        assert_same(asked.answers(rows, **way), expected)


@pytest.mark.skipif(not can_pack(), reason="this torch has no oneDNN")
@each(PAIRS)
def test_a_packed_model_gives_the_same_answers(
    variant: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "SMALL", 0)
    monkeypatch.setattr(attention, "MANY_HEADS", 1)  # few enough for the kernel of many heads
    asked = Asked(variant, *LENGTHS)
    plain = asked.answers(range(3), beam_size=3, n_best=2)
    pack(asked.model)
    assert_same(asked.answers(range(3), beam_size=3, n_best=2), plain)
