"""Keys and values of a search, in pages: outputs of many pages score as the forced output does."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.toys import answers, engine, sentences, toy
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.search import force_decode, total
from glassformer.engine.decoding import Pages
from glassformer.engine.sizes import KEYS

LONG = 3 * KEYS + 5  # positions in four pages, the last one in part
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 4},
    "beam-with-rules": {"beam_size": 4, "n_best": 4, "min_length": LONG - 2},
    "sample": {"beam_size": 1, "n_best": 3, "sample": True, "seed": 1},
}


def pages(n: int) -> Pages:
    model: Any = SimpleNamespace(settings=SimpleNamespace(decoder_layers=2), key_width=8)
    return Pages(model, n)


def test_free_pages_are_taken_from_the_first_on() -> None:
    memory = pages(4)
    rows = 2 * 2 * KEYS  # of a page: two layers, keys and values
    assert memory.take(2, 1).tolist() == [[0], [rows]]
    memory.keep(np.array([rows + 3]))
    assert memory.take(3).tolist() == [0, 2 * rows, 3 * rows], "the second one is kept"


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("prefix", [0, 1, KEYS - 1, KEYS])
def test_outputs_of_several_pages_have_the_score_of_the_forced_output(
    search: str, prefix: int
) -> None:
    model = engine(toy(positions="rope"), threads=1)
    sources = sentences(5, 21, 9)
    prefixes = [row[:prefix] for row in sentences(*[prefix] * 3, seed=1)]
    found = answers(
        model, sources, **{"max_length": LONG, "prefixes": prefixes, **SEARCHES[search]}
    )
    assert max(len(one.ids) for each in found for one in each) > 2 * KEYS
    for source, each in zip(sources, found, strict=True):
        targets = [[*one.ids, EOS] if one.complete else one.ids for one in each]
        forced = force_decode(model, [source] * len(each), targets, BOS)
        assert [one.log_probability for one in each] == [total(one) for one in forced]


def test_pages_of_hypotheses_that_died_out_are_used_again() -> None:
    """Every step continues the first hypothesis: its pages stay, and those of the others go."""
    model, width, blocks = engine(toy(positions="rope"), threads=1), 4, 6
    decoding = model.start(sentences(5), 1, width, blocks * KEYS)
    decoding.prefill(np.array([[BOS]]))
    for _ in range(blocks * KEYS - 1):
        decoding.step(np.full((1, width), EOS + 1), np.zeros((1, width), np.int64))
    slots = decoding.slots[0] // decoding.pages.rows  # the page of each token
    assert slots.max() < blocks - 1 + width < len(decoding.pages.memory)
