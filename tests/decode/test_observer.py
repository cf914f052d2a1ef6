"""An observer is told of every step of every sentence that is not done, and decides nothing."""

from itertools import pairwise

import pytest
import torch

from decode.oracles import sources, toy
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.observer import Step
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search

V = 12


class Notes:
    """Remembers what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.prefix: tuple[torch.Tensor, torch.Tensor] | None = None
        self.likely: list[tuple[list[int], torch.Tensor]] = []
        self.steps: list[Step] = []

    def began(self, said, log_probs) -> None:
        self.told.append("began")
        self.prefix = said.clone(), log_probs.clone()

    def heard(self, sentences, log_probs) -> None:
        self.told.append("heard")
        self.likely.append((sentences.tolist(), log_probs.clone()))

    def chose(self, step: Step) -> None:
        self.told.append("chose")
        self.steps.append(step)


WAYS = [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}, {"sample": True, "n_best": 2}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_step_is_told_and_nothing_is_changed(way) -> None:
    model, rows = toy(), pad(sources(5, 2, 7, 3))
    options, notes = SearchOptions(max_length=6, **way), Notes()
    found = search(model, rows, BOS, EOS, options, observer=notes)
    assert found == search(model, rows, BOS, EOS, options)
    steps = len(notes.steps)
    assert notes.told == ["began"] + ["heard", "chose"] * steps and 1 <= steps <= 6
    width = 2 if "sample" in way else options.beam_size
    for number, ((heard, log_probs), step) in enumerate(
        zip(notes.likely, notes.steps, strict=True)
    ):
        assert heard == step.sentences.tolist() == sorted(heard)
        hypotheses = 1 if number == 0 and "sample" not in way else width
        assert log_probs.shape == (len(heard), hypotheses, V)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(log_probs.shape[:2]))
        assert step.parents.shape == step.tokens.shape == step.log_probs.shape == step.ended.shape
        assert step.lives.shape == (len(heard), width)
    told = [set(step.sentences.tolist()) for step in notes.steps]
    assert told[0] == {0, 1, 2, 3} and all(b <= a for a, b in pairwise(told))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_what_ended_is_what_is_found(way) -> None:
    model, rows = toy(), pad(sources(5, 2))
    options, notes = SearchOptions(max_length=6, **way), Notes()
    found = search(model, rows, BOS, EOS, options, observer=notes)
    ended: dict[int, list[float]] = {0: [], 1: []}
    for step in notes.steps:
        for r, c in step.ended.nonzero().tolist():
            ended[int(step.sentences[r])].append(float(step.log_probs[r, c]))
            assert step.log_probs[r, c] > -torch.inf
            assert c not in step.lives[r].tolist()
    for number, hypotheses in enumerate(found):
        assert {h.log_probability for h in hypotheses} <= set(ended[number])


def test_a_prefix_is_told_with_what_was_likely_in_its_place() -> None:
    model, notes = toy(kind="language-model"), Notes()
    options = SearchOptions(beam_size=2, max_length=5)
    search(model, None, BOS, EOS, options, [[5, 6], [7]], observer=notes)
    assert notes.prefix is not None
    said, log_probs = notes.prefix
    assert said.tolist() == [[5], [7]] and log_probs.shape == (2, 1, V)  # what they have in common
    with torch.no_grad():
        expected = model(torch.tensor([[BOS]]))[0].log_softmax(-1)
    torch.testing.assert_close(log_probs[0], expected)
