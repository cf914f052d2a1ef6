"""Token by token, each decided at once: the likeliest (greedy), or one drawn at random."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decode.observer import Observer, Step
from glassformer.decode.options import Hypothesis, SearchOptions
from glassformer.decode.top_k import top_k
from glassformer.decode.walk import Walk

Chooser = Callable[[Tensor, Tensor], Tensor]  # logits (B, W, V), sentences (B,) -> ids (B, W)


def likeliest(logits: Float[Tensor, "B W V"], sentences: Tensor) -> Int[Tensor, "B W"]:
    """Greedy search."""
    return top_k(logits, 1)[1].squeeze(-1)


class Sampler:
    """Draws from the model's probabilities, sharpened by temperature, cut to top-k and top-p.

    Each sentence has a generator of its own, so that what is drawn for it depends on the seed and
    its number, not on its neighbours.
    """

    def __init__(self, options: SearchOptions, numbers: Sequence[int]) -> None:
        self.options = options
        self.generators = [_generator(options.seed, number) for number in numbers]

    def __call__(self, logits: Float[Tensor, "B W V"], sentences: Tensor) -> Int[Tensor, "B W"]:
        # What is forced is not drawn: with other neighbours it may have been read beforehand.
        is_drawn = ((logits > -torch.inf).sum(-1) > 1).any(1)
        logits = logits / self.options.temperature
        if self.options.top_k:
            keep = min(self.options.top_k, logits.size(-1))
            logits = logits.masked_fill(logits < top_k(logits, keep)[0][..., -1:], -torch.inf)
        if self.options.top_p < 1:
            logits = nucleus(logits, self.options.top_p)
        # The largest of log p + Gumbel noise is a draw from p.
        noise = torch.ones(logits.shape)
        for row, sentence in enumerate(sentences.tolist()):
            if is_drawn[row]:
                noise[row].exponential_(generator=self.generators[sentence])
        return (logits.float() - noise.log()).argmax(-1)


def nucleus(logits: Float[Tensor, "B W V"], p: float) -> Float[Tensor, "B W V"]:
    """Only the fewest tokens whose probabilities reach p (Holtzman et al., 2020)."""
    ordered, order = logits.sort(descending=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    return logits.masked_fill((before >= p).gather(-1, order.argsort(-1)), -torch.inf)


def _generator(seed: int, number: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 0x9E3779B97F4A7C15 + number) % 2**63)


class OneByOne(Walk):
    """`width` hypotheses per sentence that know nothing of each other."""

    def __init__(self, *start: Any, choose: Chooser) -> None:
        super().__init__(*start)
        self.choose, width = choose, self.session.width
        self.said, self.log_probs = self.said.repeat(1, width, 1), self.log_probs.repeat(1, width)
        self.silent = torch.zeros_like(self.log_probs, dtype=torch.bool)  # (B, W): has ended
        self.found: list[list[Hypothesis]] = [[] for _ in self.sentences]

    def steps(self, logits: Float[Tensor, "B W V"]) -> Iterator[Tensor]:
        """Go to the end of every sentence; what was said last, (B, W), at every step."""
        logits = logits.repeat(1, self.session.width, 1)
        while True:
            tokens = self.advance(logits)
            yield tokens
            self.done = self.silent.all(1)
            if self.done.all():
                return
            tokens, self.silent = self.let_go(tokens, self.silent)
            logits = self.session.step(tokens)

    def advance(self, logits: Float[Tensor, "B W V"]) -> Int[Tensor, "B W"]:
        log_probs = self.next_log_probs(logits)
        tokens = self.choose(log_probs, self.sentences)
        self.log_probs = self.log_probs + log_probs.gather(-1, tokens[..., None]).squeeze(-1)
        ends = (tokens == self.rules.eos) | self.at_the_limit[:, None]
        for b, w in (ends & ~self.silent).nonzero().tolist():
            said, log_probability = self.said[b, w].tolist(), float(self.log_probs[b, w])
            ended = self.ended(said, int(tokens[b, w]), log_probability)
            self.found[int(self.sentences[b])].append(ended)
        if self.observer is not None:
            self._show(self.observer, tokens, ends)
        self.silent |= ends
        self.said = torch.cat((self.said, tokens[..., None]), -1)
        return tokens

    def _show(self, observer: Observer, tokens: Int[Tensor, "B W"], ends: Tensor) -> None:
        """Every hypothesis has one candidate, its own; one that ended before has none."""
        each = torch.arange(tokens.size(1)).expand_as(tokens)
        totals = self.log_probs.masked_fill(self.silent, -torch.inf)
        lives = each.masked_fill(ends | self.silent, -1)
        step = Step(self.sentences, each, tokens, totals, ends & ~self.silent, lives)
        observer.chose(step.of(~self.done))
