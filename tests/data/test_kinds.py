"""Texts that are too long are dropped, cut or split, by the kind of model."""

import pytest

from glassformer.data.batch import ASSEMBLE
from glassformer.data.kinds import KINDS

LONG, SHORT = [4, 5, 6, 7, 8], [9]


def test_every_kind_of_batch_has_its_kind() -> None:
    assert KINDS.keys() == ASSEMBLE.keys()


def test_a_pair_with_a_long_side_is_dropped() -> None:
    sides = [[LONG, SHORT, SHORT], [SHORT, LONG, SHORT]]
    assert KINDS["translator"].fit(sides, 4) == (sides, [2])


@pytest.mark.parametrize("kind", ["classifier", "language-model"])
def test_a_long_text_is_cut(kind: str) -> None:
    assert KINDS[kind].fit([[LONG, SHORT]], 4) == ([[LONG[:4], SHORT]], [0, 1])


def test_a_masked_language_model_reads_the_whole_text_in_pieces() -> None:
    expected = [LONG[:2], LONG[2:], SHORT]
    assert KINDS["masked-language-model"].fit([[LONG, SHORT]], 4) == ([expected], [0, 1, 2])
