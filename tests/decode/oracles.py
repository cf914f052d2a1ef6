"""Textbook search in Python lists, without a cache; random models; and the decoders under test."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.checkpoint.weights import as_arrays, weights_of
from glassformer.config import preset
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.decoder import Decoder, Ids
from glassformer.decode.options import Hypothesis, penalty
from glassformer.decode.rows import Rows
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.engine.model import CompiledModel
from glassformer.model.build import build
from glassformer.model.masks import causal_mask
from glassformer.model.transformer import LanguageModel, Transformer

Model = Transformer | LanguageModel
Prefix = tuple[int, ...]
Next = Callable[[list[Prefix]], list[list[float]]]  # log-probabilities after each prefix
CLOSE = 1e-5
WAYS = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 3},
    "sample": {"sample": True, "n_best": 3},
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def compiled(model: Any) -> Decoder:
    """The compiled engine with the weights of a toy, which knows its `settings`."""
    return CompiledModel(model.settings, as_arrays(weights_of(model)), threads=2)


# Every test of search runs over all of these: model -> Decoder.
DECODERS: dict[str, Callable[[Any], Decoder]] = {"torch": TorchDecoder, "compiled": compiled}
each_decoder = pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)


def toy(vocab_size: int = 12, **changes: Any) -> Any:
    """A float32 model with weights so large that its outputs vary, and end now and then."""
    sizes = {
        "d_model": 16, "n_heads": 4, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1,
        "tie_target_output": False,
    }  # fmt: skip
    settings = preset("tiny").replace(vocab_size=vocab_size, **sizes | changes)
    model = build(settings)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.5)
    model.settings = settings
    return model.eval()


def sources(*lengths: int, vocab_size: int = 12) -> list[list[int]]:
    return [[*torch.randint(EOS + 1, vocab_size, (n,)).tolist(), EOS] for n in lengths]


def after(models: Model | Sequence[Model], source: list[int] | None) -> Next:
    """Run every whole model on every whole prefix; take the mean of their probabilities."""
    members = models if isinstance(models, Sequence) else [models]

    @torch.inference_mode()
    def ask(prefixes: list[Prefix]) -> list[list[float]]:
        ids = torch.tensor([[BOS, *prefix] for prefix in prefixes])
        mask = causal_mask(ids.size(1))  # no padding among them
        logits = [
            model(ids, mask)
            if isinstance(model, LanguageModel)
            else model(torch.tensor([source] * len(ids)), ids, target_mask=mask)
            for model in members
        ]
        probabilities = torch.stack([x[:, -1].double().softmax(-1) for x in logits])
        return probabilities.mean(0).log().tolist()

    return ask


def never(prefix: Prefix) -> set[int]:
    """The ids that no search produces."""
    return {PAD, BOS}


def beam(
    following: Next,
    width: int,
    limit: int,
    *,
    n: int = 1,
    alpha: float = 0.6,
    counted: float = inf,
    forbidden: Callable[[Prefix], set[int]] = never,
    prefix: Sequence[int] = (),
    factor: float = 1.0,
    stop: bool = False,
) -> list[Hypothesis]:
    """Textbook beam search. Without `stop` it goes on to the greatest length in any case."""
    live: list[tuple[Prefix, float]] = [((), 0.0)]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        best = sorted(
            (total + log_prob, ids, token)
            for (ids, total), row in zip(live, following([s for s, _ in live]), strict=True)
            for token, log_prob in _allowed(row, ids, forbidden, prefix, factor)
        )[::-1][: 2 * width if width > 1 else 1]
        for total, history, token in best[:width]:
            if token == EOS or length == limit:
                ids = [*history] if token == EOS else [*history, token]
                score = total / penalty(length, alpha, counted)
                finished.append(Hypothesis(ids, total, score, token == EOS))
        live = [((*history, token), total) for total, history, token in best if token != EOS]
        live = live[:width]
        finished = sorted(finished, key=lambda h: -h.score)[:n]
        if not live:
            break
        attainable = live[0][1] / penalty(limit if alpha > 0 else length + 1, alpha, counted)
        if stop and len(finished) == n and finished[-1].score >= attainable:
            break
    return finished


def _allowed(
    row: list[float],
    history: Prefix,
    forbidden: Callable[[Prefix], set[int]],
    prefix: Sequence[int],
    factor: float,
) -> Iterator[tuple[int, float]]:
    if len(history) < len(prefix):
        yield prefix[len(history)], row[prefix[len(history)]]
        return
    for token, log_prob in enumerate(row):
        if token not in forbidden(history):
            yield token, log_prob * factor if token in history else log_prob


def exhaustive(following: Next, vocab_size: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Every possible answer, best first."""
    words = [token for token in range(vocab_size) if token not in (PAD, BOS, EOS)]
    found = []
    for length in range(1, limit + 1):
        for history in product(words, repeat=length - 1):
            ends = [EOS, *words] if length == limit else [EOS]
            for token in ends:
                total = log_probability(following, (*history, token))
                ids = [*history] if token == EOS else [*history, token]
                score = total / penalty(length, alpha)
                found.append(Hypothesis(ids, total, score, token == EOS))
    return sorted(found, key=lambda h: -h.score)


def log_probability(following: Next, ids: Prefix) -> float:
    return sum(following([ids[:i]])[0][token] for i, token in enumerate(ids))


def tree(seed: int, vocab_size: int, sharpness: float = 2.0) -> Next:
    """A random distribution after every prefix, in float32 as decoders give it."""

    def ask(prefixes: list[Prefix]) -> list[list[float]]:
        dice = [Random(f"{seed} {prefix}") for prefix in prefixes]
        logits = [[sharpness * d.gauss() for _ in range(vocab_size)] for d in dice]
        return torch.tensor(logits, dtype=torch.double).log_softmax(-1).float().tolist()

    return ask


class TreeDecoder:
    """A Decoder whose sentence with the source [i] has the distributions of trees[i]."""

    pad_id, reads_source, max_target = PAD, True, None

    def __init__(self, trees: list[Next]) -> None:
        self.trees, self.vocab_size = trees, len(trees[0]([()])[0])
        self.sizes: list[int] = []  # number of sentences of each step

    def start(
        self, sources: Sequence[Sequence[int]], batch: int, width: int, max_length: int
    ) -> "TreeDecoding":
        return TreeDecoding([self.trees[i] for (i,) in sources], width, self.sizes)


class TreeDecoding:
    def __init__(self, trees: list[Next], width: int, sizes: list[int]) -> None:
        self.trees, self.width, self.sizes = trees, width, sizes
        self.histories: list[list[Prefix]] = [[()] for _ in trees]

    def prefill(self, ids: Ids) -> Rows:
        prefixes = [[tuple(row[1 : n + 1]) for n in range(ids.shape[1])] for row in ids.tolist()]
        rows = [one(row) for one, row in zip(self.trees, prefixes, strict=True)]
        self.histories = [row[-1:] for row in prefixes]
        return Rows(np.array(rows))

    def step(self, tokens: Ids, parents: Ids | None = None) -> Rows:
        self.sizes.append(len(tokens))
        if parents is None:
            last = len(self.histories[0]) - 1
            parents = np.broadcast_to(np.arange(self.width).clip(max=last), tokens.shape)
        self.histories = [
            [(*history[p], token) for p, token in zip(ps, row, strict=True)]
            for history, ps, row in zip(
                self.histories, parents.tolist(), tokens.tolist(), strict=True
            )
        ]
        rows = [one(row) for one, row in zip(self.trees, self.histories, strict=True)]
        return Rows(np.array(rows))

    def keep(self, sentences: Ids) -> None:
        self.histories = [self.histories[i] for i in sentences.tolist()]
        self.trees = [self.trees[i] for i in sentences.tolist()]


def remembering(following: Next) -> Next:
    """Cache the distributions."""
    known: dict[Prefix, list[float]] = {}

    def ask(prefixes: list[Prefix]) -> list[list[float]]:
        new = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in known]
        known.update(zip(new, following(new) if new else [], strict=True))
        return [known[prefix] for prefix in prefixes]

    return ask


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """Compare ids, scores to 1e-5, and the order where scores differ by more than that."""
    for ours, theirs in zip(found, expected, strict=True):
        assert sorted(h.ids for h in ours) == sorted(h.ids for h in theirs)
        known = {(*h.ids, h.complete): h for h in theirs}
        for one, in_its_place in zip(ours, theirs, strict=True):
            other = known[(*one.ids, one.complete)]
            assert abs(one.score - other.score) < CLOSE
            assert abs(one.log_probability - other.log_probability) < CLOSE
            assert abs(other.score - in_its_place.score) < CLOSE
