"""An observer gets every step of every sentence that is not done, and changes nothing."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from decode.oracles import sources, toy
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.observer import Step
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search
from glassformer.decode.torch_decoder import TorchDecoder

V = 12


class Notes:
    """Keeps everything, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.prefix: tuple[np.ndarray, np.ndarray] | None = None
        self.scores: list[tuple[list[int], np.ndarray]] = []
        self.steps: list[Step] = []

    def on_prefix(self, prefix, log_probs) -> None:
        self.calls.append("prefix")
        self.prefix = prefix.copy(), log_probs.copy()

    def on_scores(self, sentences, log_probs) -> None:
        self.calls.append("scores")
        self.scores.append((sentences.tolist(), log_probs.copy()))

    def on_step(self, step: Step) -> None:
        self.calls.append("step")
        self.steps.append(step)


WAYS = [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}, {"sample": True, "n_best": 2}]
each_way = pytest.mark.parametrize("way", WAYS, ids=str)


@each_way
def test_every_step_is_reported_and_nothing_is_changed(way) -> None:
    decoder, rows = TorchDecoder(toy()), sources(5, 2, 7, 3)
    options, notes = SearchOptions(max_length=6, **way), Notes()
    found = search(decoder, rows, BOS, EOS, options, observer=notes)
    assert found == search(decoder, rows, BOS, EOS, options)
    steps = len(notes.steps)
    assert notes.calls == ["prefix"] + ["scores", "step"] * steps and 1 <= steps <= 6
    for number, ((sentences, log_probs), step) in enumerate(
        zip(notes.scores, notes.steps, strict=True)
    ):
        assert sentences == step.sentences.tolist() == sorted(sentences)
        hypotheses = 1 if number == 0 else options.width
        assert log_probs.shape == (len(sentences), hypotheses, V)
        np.testing.assert_allclose(np.exp(log_probs).sum(-1), 1, rtol=1e-5)
        assert step.parents.shape == step.tokens.shape == step.log_probs.shape == step.ended.shape
        assert step.survivors.shape == (len(sentences), options.width)
    live = [set(step.sentences.tolist()) for step in notes.steps]
    assert live[0] == {0, 1, 2, 3} and all(b <= a for a, b in pairwise(live))


@each_way
def test_answers_are_among_the_candidates_that_ended(way) -> None:
    rows, notes = sources(5, 2), Notes()
    options = SearchOptions(max_length=6, **way)
    found = search(TorchDecoder(toy()), rows, BOS, EOS, options, observer=notes)
    ended: dict[int, list[float]] = {0: [], 1: []}
    for step in notes.steps:
        for r, c in np.argwhere(step.ended).tolist():
            ended[int(step.sentences[r])].append(float(step.log_probs[r, c]))
            assert step.log_probs[r, c] > -np.inf
            assert c not in step.survivors[r].tolist()
    for number, hypotheses in enumerate(found):
        assert {h.log_probability for h in hypotheses} <= set(ended[number])


def test_the_common_prefix_is_reported_with_the_models_scores() -> None:
    model, notes = toy(kind="language-model"), Notes()
    options = SearchOptions(beam_size=2, max_length=5)
    search(TorchDecoder(model), None, BOS, EOS, options, [[5, 6], [7]], observer=notes)
    assert notes.prefix is not None
    prefix, log_probs = notes.prefix
    assert prefix.tolist() == [[5], [7]] and log_probs.shape == (2, 1, V)  # of the shortest
    with torch.no_grad():
        expected = model(torch.tensor([[BOS]]))[0].log_softmax(-1)
    np.testing.assert_allclose(log_probs[0], expected.numpy(), rtol=1e-5)
