"""Properties of decoding in float32 for every variant and decoder.

all seams (504 translators)     a batch of different lengths, cached, gets the textbook's beam
                                search of each sentence, without a cache
positions × heads × kernel      batches of 1 to 64 in any order; greedy search; forced scores;
                                prefixes of different lengths
pairs                           beams as wide as the tree
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest
import torch

from decode.oracles import (
    Next,
    after,
    assert_same,
    beam,
    each_decoder,
    exhaustive,
    remembering,
)
from equivalence.variants import ALL, ATTENTION, PAIRS, Case, toy, variants
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.decoder import Decoder
from glassformer.decode.search import Hypothesis, SearchOptions, force_decode, search, total
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
Decode = Callable[[Any], Decoder]


def each(selection: list[Case]) -> Any:
    """Parametrise over decoders, and the selection for the translator, pairs for the other."""
    parameters = variants(selection, "translator") + variants(PAIRS, "language-model")
    by_variant = pytest.mark.parametrize("variant", parameters)
    return lambda test: each_decoder(by_variant(test))


def model_of(variant: Case, **changes: Any) -> Any:
    """In float32, and with an output matrix of its own, so that it does not only copy its input."""
    return toy(**{"tie_target_output": False, "max_positions": 16} | variant | changes).float()


def sources(*lengths: int, vocab_size: int = 11) -> list[list[int]]:
    return [[*torch.randint(EOS + 1, vocab_size, (n,)).tolist(), EOS] for n in lengths]


class Questions:
    """A model with sentences for it: sources, or prefixes alone for a language model."""

    def __init__(self, variant: Case, decode: Decode, *lengths: int, **changes: Any) -> None:
        self.model: Model = model_of(variant, **changes)
        self.decoder = decode(self.model)
        self.sources = sources(*lengths, vocab_size=changes.get("vocab_size", 11))
        self.prefixes = [list(PREFIXES[i % 3]) for i in range(len(lengths))]
        if self.decoder.reads_source:
            self.prefixes = [[] for _ in lengths]

    def answers(self, rows: Iterable[int], **options: Any) -> Found:
        """Search these rows in one batch."""
        rows = list(rows)
        return search(
            self.decoder,
            [self.sources[i] for i in rows] if self.decoder.reads_source else None,
            BOS,
            EOS,
            SearchOptions(**{"max_length": LIMIT, **options}),
            [self.prefixes[i] for i in rows],
            rows,
        )

    def forced(self, row: int, hypotheses: list[Hypothesis]) -> list[float]:
        targets = [[*h.ids, *([EOS] if h.complete else [])] for h in hypotheses]
        source = [self.sources[row]] * len(targets) if self.decoder.reads_source else None
        return [total(scores) for scores in force_decode(self.decoder, source, targets, BOS)]

    def textbook(self, row: int, width: int, n: int) -> list[Hypothesis]:
        return beam(self.after(row), width, LIMIT, n=n, prefix=self.prefixes[row])

    def after(self, row: int) -> Next:
        return remembering(after(self.model, self.sources[row]))


@each(ALL)
def test_a_batch_with_a_cache_gets_the_textbooks_answers(variant: Case, decode: Decode) -> None:
    asked = Questions(variant, decode, *LENGTHS, decoder_layers=1)
    found = asked.answers(range(3), beam_size=3, n_best=2)
    assert_same(found, [asked.textbook(row, 3, n=2) for row in range(3)])


@each(ATTENTION)
def test_a_beam_of_one_is_greedy_search(variant: Case, decode: Decode) -> None:
    asked = Questions(variant, decode, *LENGTHS)
    found = asked.answers(range(3), beam_size=1)
    assert_same(found, [asked.textbook(row, 1, n=1) for row in range(3)])


@each(ATTENTION)
def test_answers_do_not_depend_on_batch_and_order(variant: Case, decode: Decode) -> None:
    """Some of 64 questions alone and in small batches, and all of them shuffled in one."""
    asked = Questions(variant, decode, *[4, 1, 6, 2, 5, 3, 7, 4] * 8)
    order = torch.randperm(64).tolist()
    for way in WAYS:
        found = dict(zip(order, asked.answers(order, **way), strict=True))
        for rows in ([0], [5, 1], [2, 3, 4, 6, 7]):
            assert_same(asked.answers(rows, **way), [found[row] for row in rows])


@each(ATTENTION)
def test_forced_decoding_gives_the_same_scores(variant: Case, decode: Decode) -> None:
    asked = Questions(variant, decode, *LENGTHS)
    asked.prefixes = PREFIXES
    for way in WAYS:
        for row, hypotheses in enumerate(asked.answers(range(3), **way)):
            totals = asked.forced(row, hypotheses)
            assert [h.log_probability for h in hypotheses] == pytest.approx(totals, abs=1e-5)
            scores = [h.score for h in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert all(h.ids[: len(PREFIXES[row])] == PREFIXES[row] for h in hypotheses)
            assert not {PAD, BOS, EOS} & set(chain(*(h.ids for h in hypotheses)))
            distinct = {(*h.ids, h.complete) for h in hypotheses}
            assert "sample" in way or len(distinct) == len(hypotheses)


@each(ATTENTION)
def test_prefixes_of_different_lengths_are_as_in_the_textbook(
    variant: Case, decode: Decode
) -> None:
    asked = Questions(variant, decode, *LENGTHS)
    asked.prefixes = PREFIXES
    found = asked.answers(range(3), beam_size=3, n_best=2)
    assert_same(found, [asked.textbook(row, 3, n=2) for row in range(3)])


@each(PAIRS)
def test_a_beam_as_wide_as_the_tree_is_an_exhaustive_search(variant: Case, decode: Decode) -> None:
    """Two words and the end, three times: at most twelve candidates."""
    asked = Questions(variant, decode, 3, 1, vocab_size=5)
    asked.prefixes = [[], []]
    trees = [asked.after(row) for row in range(2)]
    for alpha in (-0.5, 0.0, 0.6, 2.0):
        options = {"beam_size": 12, "n_best": 12, "length_penalty": alpha, "max_length": 3}
        found = asked.answers(range(2), **options)
        assert_same(found, [exhaustive(one, 5, 3, alpha)[:12] for one in trees])
