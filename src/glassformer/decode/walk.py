"""One batch on its way from the first token to its answers: what every search keeps and does."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decode.constraints import Constraints
from glassformer.decode.observer import Observer
from glassformer.decode.options import Hypothesis, SearchOptions, penalty
from glassformer.decode.session import Session

CROWDED = 4  # finished sentences leave when they are one in so many: leaving copies the cache


class Walk:
    """Hypotheses of each sentence, all of one length; how they go on is for a subclass to say."""

    def __init__(
        self,
        session: Session,
        rules: Constraints,
        options: SearchOptions,
        limits: Int[Tensor, "B"],
        said: Int[Tensor, "B T"],
        log_probs: Float[Tensor, "B"],
        observer: Observer | None = None,
    ) -> None:
        self.observer = observer
        self.session, self.rules, self.options, self.limits = session, rules, options, limits
        self.said = said[:, None]  # (B, W, T); one hypothesis until the first step
        self.log_probs = log_probs[:, None]  # (B, W)
        self.sentences = torch.arange(len(said))  # whose row each row is
        self.done = torch.zeros(len(said), dtype=torch.bool)

    @property
    def at_the_limit(self) -> Tensor:
        """Sentences, (B,), whose next token is their last."""
        at: Tensor = self.limits == self.said.size(-1) + 1
        return at

    def ended(self, said: list[int], token: int, log_probability: float) -> Hypothesis:
        """What was said, ending with `token`: the end mark, or a word where room ends."""
        complete = token == self.rules.eos
        score = log_probability / penalty(len(said) + 1, self.options.length_penalty)
        return Hypothesis(said if complete else [*said, token], log_probability, score, complete)

    def next_log_probs(self, logits: Float[Tensor, "B W V"]) -> Float[Tensor, "B W V"]:
        """Of what may be said next; the observer hears what the model says, before any rule.

        They take the place of the logits, as large as which nothing else is at a step.
        """
        log_probs = torch.log_softmax(logits, -1, out=logits)
        if self.observer is not None:
            going = ~self.done
            self.observer.heard(self.sentences[going], log_probs[going])
        self.rules.apply(log_probs, self.said)
        return log_probs

    def let_go(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """Sentences that are done leave the batch, as soon as they crowd it; so do their `rows`."""
        if self.done.sum() * CROWDED < len(self.done):
            return rows
        going = (~self.done).nonzero().flatten()
        self.session.keep(going)
        self.rules.keep(going)
        self.said, self.log_probs = self.said[going], self.log_probs[going]
        self.sentences, self.limits = self.sentences[going], self.limits[going]
        self.done = self.done[going]
        return tuple(row[going] for row in rows)
