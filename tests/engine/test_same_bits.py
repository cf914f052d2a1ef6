"""The same input gives the same bits: in any batch, order, number of threads, at once or by steps.

Hypotheses are compared whole: ids, log-probability and score, without a tolerance.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.toys import VOCABULARY, answers, engine, sentences, toy
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.search import Hypothesis, force_decode, total
from glassformer.engine import decoding as engine_decoding
from glassformer.engine import layout as engine_layout
from glassformer.engine import model as engine_model
from glassformer.engine import positions as engine_positions
from glassformer.engine.model import CompiledModel

QUESTIONS = sentences(*[4, 1, 17, 2, 33, 3, 7, 16] * 8)
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1, "max_length": 20},
    "beam": {"beam_size": 4, "n_best": 3, "max_length": 20},
    "long": {"beam_size": 2, "max_length": 70},  # more than memory is made for at first
    "rules": {"beam_size": 3, "no_repeat_ngram": 2, "min_length": 3},
}
each_way = pytest.mark.parametrize("way", WAYS)
each_precision = pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
FEW = settings(max_examples=12, deadline=None)


@cache
def compiled(int8: bool, threads: int = 1, kind: str = "translator") -> CompiledModel:
    torch.manual_seed(0)
    model = toy(kind=kind, positions="relative" if kind == "language-model" else "sinusoidal")
    return engine(model, int8=int8, threads=threads)


@cache
def alone(int8: bool, way: str, row: int) -> list[Hypothesis]:
    return answers(compiled(int8), [QUESTIONS[row]], **WAYS[way])[0]


@each_precision
@each_way
@FEW
@given(rows=st.lists(st.integers(0, 63), min_size=1, max_size=64), threads=st.integers(1, 3))
def test_an_answer_does_not_depend_on_batch_order_and_threads(
    int8: bool, way: str, rows: list[int], threads: int
) -> None:
    found = answers(compiled(int8, threads), [QUESTIONS[row] for row in rows], **WAYS[way])
    assert found == [alone(int8, way, row) for row in rows]


@each_precision
@each_way
def test_all_of_a_batch_of_64_are_answered_as_alone(int8: bool, way: str) -> None:
    found = answers(compiled(int8, 2), QUESTIONS, **WAYS[way])
    assert found == [alone(int8, way, row) for row in range(64)]


@each_precision
@pytest.mark.parametrize("threads", [2, 3])
def test_a_team_of_threads_in_one_step_gives_the_bits_of_one(
    int8: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_model, "SHARED_FROM", 0)
    monkeypatch.setattr(engine_model, "is_machine_busy", lambda: False)
    team = compiled(int8, threads)
    assert team.team_size(1) == threads
    for way in ("greedy", "beam"):
        found = answers(team, [QUESTIONS[4]], **WAYS[way])
        assert found == [alone(int8, way, 4)]


@each_precision
@each_way
def test_a_prefix_of_different_length_beside_a_sentence_changes_nothing(
    int8: bool, way: str
) -> None:
    prefixes = [[], [5, 6, 5], [7], [9] * 6]
    model = compiled(int8, kind="language-model")
    apart = [answers(model, None, prefixes=[prefix], **WAYS[way])[0] for prefix in prefixes]
    assert answers(model, None, prefixes=prefixes, **WAYS[way]) == apart


@each_precision
@FEW
@given(
    cuts=st.sets(st.integers(1, 24)),
    batch=st.integers(1, 9),
    width=st.integers(1, 3),
)
def test_tokens_read_at_once_and_one_by_one_have_the_same_scores(
    int8: bool, cuts: set[int], batch: int, width: int
) -> None:
    """`prefill` of a part, then steps in which every hypothesis reads the same tokens."""
    model, sources = compiled(int8), QUESTIONS[:batch]
    ids = np.array([[BOS, *row[:24]] for row in sentences(*[24] * batch, seed=2)])
    at_once = model.start(sources, batch, 1, 25).prefill(ids).rows()
    for first in sorted(cuts)[:2]:
        decoding = model.start(sources, batch, width, 25)
        assert (decoding.prefill(ids[:, :first]).rows() == at_once[:, :first]).all()
        for position in range(first, 25):
            tokens = np.repeat(ids[:, position, None], width, 1)
            parents = np.random.default_rng(position).integers(0, width, (batch, width))
            scores = decoding.step(tokens, parents if position > first else np.zeros_like(parents))
            assert (scores.rows() == at_once[:, None, position]).all()


@each_precision
def test_hypotheses_read_their_own_ancestors_only(int8: bool) -> None:
    """A beam that branches at random scores each history as if it had been read alone."""
    model, random, width = compiled(int8), np.random.default_rng(3), 4
    decoding = model.start([QUESTIONS[2]], 1, width, 40)
    decoding.prefill(np.array([[BOS]]))
    histories = [[BOS]] * width
    for step in range(36):
        tokens = random.integers(EOS + 1, VOCABULARY, (1, width))
        parents = random.integers(0, width, (1, width)) * (step > 0)
        rows = decoding.step(tokens, parents).rows()[0]
        histories = [[*histories[p], t] for p, t in zip(parents[0], tokens[0], strict=True)]
    for history, row in zip(histories, rows, strict=True):
        expected = model.start([QUESTIONS[2]], 1, 1, 40).prefill(np.array([history])).rows()
        assert (row == expected[0, -1]).all()


@each_precision
@each_way
def test_a_forced_answer_has_the_score_that_the_search_gave_it(int8: bool, way: str) -> None:
    model = compiled(int8, 2)
    for source, hypotheses in zip(
        QUESTIONS[:8], answers(model, QUESTIONS[:8], **WAYS[way]), strict=True
    ):
        targets = [[*h.ids, *[EOS] * h.complete] for h in hypotheses]
        scores = force_decode(model, [source] * len(targets), targets, BOS)
        assert [total(each) for each in scores] == [h.log_probability for h in hypotheses]


@each_precision
def test_the_best_tokens_are_those_of_the_whole_row(int8: bool) -> None:
    ids = np.array([[BOS, 7, 8], [BOS, 9, 9]])
    scores = compiled(int8).start(QUESTIONS[:2], 2, 1, 5).prefill(ids)
    rows, banned = scores.rows(), [PAD, BOS, 64, 69]
    rows[..., banned] = -np.inf
    for k in (1, 8, VOCABULARY, VOCABULARY + 5):
        values, best = scores.top(k, banned)
        order = np.argsort(-rows, axis=-1, kind="stable")[..., :k]
        n = min(k, VOCABULARY - len(banned))
        assert (best[..., :n] == order[..., :n]).all()
        assert (values[..., :n] == np.take_along_axis(rows, best, -1)[..., :n]).all()
        assert (values[..., n:] == -np.inf).all() and (best[..., n:] == 0).all()


def test_probabilities_sum_to_one() -> None:
    rows = compiled(False).start(QUESTIONS[:1], 1, 1, 5).prefill(np.array([[BOS, 7, 8]])).rows()
    assert np.exp(rows.astype(np.float64)).sum(-1) == pytest.approx(1.0, abs=1e-5)


@each_precision
@FEW
@given(rows=st.lists(st.integers(0, 63), min_size=1, max_size=64))
def test_a_label_does_not_depend_on_the_batch(int8: bool, rows: list[int]) -> None:
    classifier = compiled(int8, kind="classifier")
    apart = np.concatenate([classifier.classify([QUESTIONS[row]]) for row in rows])
    assert (classifier.classify([QUESTIONS[row] for row in rows]) == apart).all()
    tagger = compiled(int8, kind="masked-language-model")
    tags = tagger.tag([QUESTIONS[row] for row in rows[:8]])
    for row, found in zip(rows[:8], tags, strict=True):
        assert (found == tagger.tag([QUESTIONS[row]])[0]).all()


class Arena:
    """Stands in for numpy: arrays lie beside each other, at random before or behind the others."""

    def __init__(self, seed: int) -> None:
        self.random, self.memory = np.random.default_rng(seed), np.zeros(1 << 22, np.uint8)
        self.begin = self.end = (1 << 21) - self.memory.ctypes.data % 16

    def zeros(self, shape: Any, dtype: Any = float) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        taken = -(-size // 16) * 16 + 16 * int(self.random.integers(0, 4))
        if self.random.integers(0, 2):
            start, self.end = self.end, self.end + taken
        else:
            start = self.begin = self.begin - taken
        return self.memory[start : start + size].view(dtype).reshape(shape)

    empty = zeros

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@each_precision
@pytest.mark.parametrize("residual", ["pre-norm", "post-norm"])
def test_bits_do_not_depend_on_where_memory_lies(
    int8: bool, residual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler may choose another loop where two buffers lie close together."""
    torch.manual_seed(1)
    model, found = toy(residual=residual, decoder_layers=1), set()
    for seed in range(60):
        arena = Arena(seed)
        for module in (engine_layout, engine_positions, engine_decoding, engine_model):
            monkeypatch.setattr(module, "np", arena)
        compiled = engine(model, int8=int8, threads=1)
        decoding = compiled.start([[5, EOS]], 1, 1, 5)
        rows = decoding.prefill(np.array([[BOS]])).rows()
        found.add(decoding.sources.values.tobytes() + rows.tobytes())
    assert len(found) == 1
