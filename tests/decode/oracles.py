"""Search as a textbook has it, in Python lists and without a cache, and models to search in."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.options import Hypothesis, penalty
from glassformer.decode.replay import Speaker
from glassformer.model.build import build
from glassformer.model.masks import causal_mask
from glassformer.model.transformer import LanguageModel

Said = tuple[int, ...]
After = Callable[[list[Said]], list[list[float]]]  # what follows each prefix: log-probabilities
CLOSE = 1e-5
WAYS = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 3},
    "sample": {"sample": True, "n_best": 3},
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def toy(vocab_size: int = 12, **changes: Any) -> Any:
    """In float32, with weights so large that it says this and that, and ends now and then."""
    sizes = {
        "d_model": 16, "n_heads": 4, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1,
        "tie_target_output": False,
    }  # fmt: skip
    model = build("tiny", vocab_size=vocab_size, **sizes | changes)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.5)
    return model.eval()


def sources(*lengths: int, vocab_size: int = 12) -> list[list[int]]:
    return [[*torch.randint(EOS + 1, vocab_size, (n,)).tolist(), EOS] for n in lengths]


def after(models: Speaker | Sequence[Speaker], source: list[int] | None) -> After:
    """The whole of every model on the whole of each prefix; the mean of their probabilities."""
    members = models if isinstance(models, Sequence) else [models]

    @torch.inference_mode()
    def ask(prefixes: list[Said]) -> list[list[float]]:
        ids = torch.tensor([[BOS, *prefix] for prefix in prefixes])
        mask = causal_mask(ids.size(1))  # whatever was said is no padding
        logits = [
            model(ids, mask)
            if isinstance(model, LanguageModel)
            else model(torch.tensor([source] * len(ids)), ids, target_mask=mask)
            for model in members
        ]
        probabilities = torch.stack([x[:, -1].double().softmax(-1) for x in logits])
        return probabilities.mean(0).log().tolist()

    return ask


def never(said: Said) -> set[int]:
    """What may not follow: nothing but the marks that are no words."""
    return {PAD, BOS}


def beam(
    following: After,
    width: int,
    limit: int,
    *,
    n: int = 1,
    alpha: float = 0.6,
    forbidden: Callable[[Said], set[int]] = never,
    prefix: Sequence[int] = (),
    factor: float = 1.0,
    stop: bool = False,
) -> list[Hypothesis]:
    """Without `stop` it goes on to the greatest length, whatever has ended already."""
    live: list[tuple[Said, float]] = [((), 0.0)]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        best = sorted(
            (total + log_prob, said, token)
            for (said, total), row in zip(live, following([s for s, _ in live]), strict=True)
            for token, log_prob in _allowed(row, said, forbidden, prefix, factor)
        )[::-1][: 2 * width if width > 1 else 1]
        for total, said, token in best[:width]:
            if token == EOS or length == limit:
                ids = [*said] if token == EOS else [*said, token]
                score = total / penalty(length, alpha)
                finished.append(Hypothesis(ids, total, score, token == EOS))
        live = [((*said, token), total) for total, said, token in best if token != EOS][:width]
        finished = sorted(finished, key=lambda h: -h.score)[:n]
        if not live:
            break
        attainable = live[0][1] / penalty(limit if alpha > 0 else length + 1, alpha)
        if stop and len(finished) == n and finished[-1].score >= attainable:
            break
    return finished


def _allowed(
    row: list[float],
    said: Said,
    forbidden: Callable[[Said], set[int]],
    prefix: Sequence[int],
    factor: float,
) -> Iterator[tuple[int, float]]:
    if len(said) < len(prefix):
        yield prefix[len(said)], row[prefix[len(said)]]
        return
    for token, log_prob in enumerate(row):
        if token not in forbidden(said):
            yield token, log_prob * factor if token in said else log_prob


def exhaustive(following: After, vocab_size: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Everything that can be said, the best first."""
    words = [token for token in range(vocab_size) if token not in (PAD, BOS, EOS)]
    found = []
    for length in range(1, limit + 1):
        for said in product(words, repeat=length - 1):
            ends = [EOS, *words] if length == limit else [EOS]
            for token in ends:
                total = log_probability(following, (*said, token))
                ids = [*said] if token == EOS else [*said, token]
                score = total / penalty(length, alpha)
                found.append(Hypothesis(ids, total, score, token == EOS))
    return sorted(found, key=lambda h: -h.score)


def log_probability(following: After, said: Said) -> float:
    return sum(following([said[:i]])[0][token] for i, token in enumerate(said))


def tree(seed: int, vocab_size: int, sharpness: float = 2.0) -> After:
    """A model that is no model: something of its own to say after every prefix."""

    def ask(prefixes: list[Said]) -> list[list[float]]:
        dice = [Random(f"{seed} {prefix}") for prefix in prefixes]
        logits = [[sharpness * d.gauss() for _ in range(vocab_size)] for d in dice]
        return torch.tensor(logits, dtype=torch.double).log_softmax(-1).tolist()

    return ask


class TreeSession:
    """Stands in for a `Session`: sentence b is told what trees[b] says."""

    def __init__(self, trees: list[After], width: int) -> None:
        self.trees, self.width = trees, width
        self.said: list[list[Said]] = [[()] for _ in trees]
        self.sizes: list[int] = []  # sentences of each step

    def logits(self) -> Tensor:
        """Not normalised: what they sum to is for the search to find out."""
        rows = [one(said) for one, said in zip(self.trees, self.said, strict=True)]
        return torch.tensor(rows, dtype=torch.double) + 3.0

    def step(self, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        self.sizes.append(len(ids))
        if parents is None:
            parents = torch.arange(self.width).clamp(max=len(self.said[0]) - 1).expand_as(ids)
        self.said = [
            [(*said[p], token) for p, token in zip(ps, tokens, strict=True)]
            for said, ps, tokens in zip(self.said, parents.tolist(), ids.tolist(), strict=True)
        ]
        return self.logits()

    def keep(self, sentences: Tensor) -> None:
        self.said = [self.said[i] for i in sentences.tolist()]
        self.trees = [self.trees[i] for i in sentences.tolist()]


def remembering(following: After) -> After:
    """The same answers; what was asked before is not computed again."""
    known: dict[Said, list[float]] = {}

    def ask(prefixes: list[Said]) -> list[list[float]]:
        new = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in known]
        known.update(zip(new, following(new) if new else [], strict=True))
        return [known[prefix] for prefix in prefixes]

    return ask


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """The same ids, scores that are the same to 1e-5, and an order that is theirs up to that."""
    for ours, theirs in zip(found, expected, strict=True):
        assert sorted(h.ids for h in ours) == sorted(h.ids for h in theirs)
        known = {(*h.ids, h.complete): h for h in theirs}
        for one, in_its_place in zip(ours, theirs, strict=True):
            other = known[(*one.ids, one.complete)]
            assert abs(one.score - other.score) < CLOSE
            assert abs(one.log_probability - other.log_probability) < CLOSE
            assert abs(other.score - in_its_place.score) < CLOSE
