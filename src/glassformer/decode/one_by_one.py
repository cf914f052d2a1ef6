"""Token by token, each decided at once: the likeliest (greedy), or one drawn at random."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decode.constraints import Constraints
from glassformer.decode.options import Hypothesis, SearchOptions, penalty
from glassformer.decode.session import Session
from glassformer.decode.top_k import top_k

Chooser = Callable[[Tensor, Tensor], Tensor]  # logits (B, W, V), sentences (B,) -> ids (B, W)
CROWDED = 4


def likeliest(logits: Float[Tensor, "B W V"], sentences: Tensor) -> Int[Tensor, "B W"]:
    """Greedy search."""
    return top_k(logits, 1)[1].squeeze(-1)


class Sampler:
    """Draws from the model's probabilities, sharpened by temperature, cut to top-k and top-p.

    Each sentence has a generator of its own, so that what is drawn for it depends on the seed and
    its number, not on its neighbours.
    """

    def __init__(self, options: SearchOptions, numbers: list[int]) -> None:
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


class OneByOne:
    """One batch, `width` hypotheses per sentence that know nothing of each other."""

    def __init__(
        self,
        session: Session,
        rules: Constraints,
        options: SearchOptions,
        limits: Int[Tensor, "B"],
        said: Int[Tensor, "B T"],
        log_probs: Float[Tensor, "B"],
        choose: Chooser,
    ) -> None:
        self.session, self.rules, self.options, self.limits = session, rules, options, limits
        self.choose = choose
        self.said = said[:, None].repeat(1, session.width, 1)  # (B, W, T)
        self.log_probs = log_probs[:, None].repeat(1, session.width)
        self.ended = torch.zeros(len(said), session.width, dtype=torch.bool)
        self.sentences = torch.arange(len(said))
        self.found: list[list[Hypothesis]] = [[] for _ in said]

    def steps(self, logits: Float[Tensor, "B W V"]) -> Iterator[Tensor]:
        """Go to the end of every sentence; what was said last, (B, W), at every step."""
        logits = logits.expand(-1, self.session.width, -1)
        while True:
            tokens = self.advance(logits.clone() if logits.stride(1) == 0 else logits)
            yield tokens
            done = self.ended.all(1)
            if done.all():
                return
            if done.sum() * CROWDED >= len(done):
                tokens = self.let_go((~done).nonzero().flatten(), tokens)
            logits = self.session.step(tokens)

    def advance(self, logits: Float[Tensor, "B W V"]) -> Int[Tensor, "B W"]:
        norm = self.rules.normalise(logits)
        self.rules.apply(logits, self.said)
        tokens = self.choose(logits, self.sentences)
        self.log_probs = self.log_probs + logits.gather(-1, tokens[..., None]).squeeze(-1) - norm
        ends = tokens == self.rules.eos
        last = (self.limits == self.said.size(-1) + 1)[:, None]
        for b, w in ((ends | last) & ~self.ended).nonzero().tolist():
            self.finish(b, w, int(tokens[b, w]))
        self.ended |= ends | last
        self.said = torch.cat((self.said, tokens[..., None]), -1)
        return tokens

    def finish(self, row: int, hypothesis: int, token: int) -> None:
        said, log_probability = self.said[row, hypothesis].tolist(), self.log_probs[row, hypothesis]
        complete = token == self.rules.eos
        ids = said if complete else [*said, token]
        score = float(log_probability) / penalty(len(said) + 1, self.options.length_penalty)
        found = Hypothesis(ids, float(log_probability), score, complete)
        self.found[int(self.sentences[row])].append(found)

    def let_go(self, going: Tensor, tokens: Tensor) -> Tensor:
        self.session.keep(going)
        self.rules.keep(going)
        self.said, self.log_probs, self.ended = (
            x[going] for x in (self.said, self.log_probs, self.ended)
        )
        self.sentences, self.limits = self.sentences[going], self.limits[going]
        return tokens[going]
