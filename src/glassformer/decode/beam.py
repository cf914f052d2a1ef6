"""Beam search: the best hypotheses side by side, one token longer at every step."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.decode.observer import Step
from glassformer.decode.options import Hypothesis
from glassformer.decode.top_k import top_k
from glassformer.decode.walk import Walk

NOTHING = -torch.inf


class Finished:
    """The n best hypotheses of one sentence that have ended."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.best: list[Hypothesis] = []

    def add(self, hypothesis: Hypothesis) -> None:
        self.best.append(hypothesis)
        self.best.sort(key=lambda h: -h.score)
        del self.best[self.n :]

    @property
    def worst_score(self) -> float:
        """What a hypothesis must beat to be among them."""
        return self.best[-1].score if len(self.best) == self.n else NOTHING


class Beam(Walk):
    """Beam search. Live hypotheses are sorted, the best of each sentence first."""

    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.finished = [Finished(self.options.n_best) for _ in self.sentences]

    def search(self, logits: Float[Tensor, "B W V"]) -> list[list[Hypothesis]]:
        """From the logits of the first step to the end of every sentence."""
        while True:
            parents, tokens = self.advance(logits)
            self.done |= self.no_live_one_can_win()
            if self.done.all():
                return [finished.best for finished in self.finished]
            parents, tokens = self.let_go(parents, tokens)
            logits = self.session.step(tokens, parents)

    def advance(self, logits: Float[Tensor, "B W V"]) -> tuple[Tensor, Tensor]:
        """Take the best candidates: those that end are finished, the others live on."""
        totals, parents, tokens = self.candidates(logits)
        ends = tokens == self.rules.eos
        last = self.at_the_limit
        width = self.options.beam_size
        ending = (ends | last[:, None])[:, :width] & (totals[:, :width] > NOTHING)
        ending &= ~self.done[:, None]
        for b, c in ending.nonzero().tolist():
            said = self.said[b, parents[b, c]].tolist()
            ended = self.ended(said, int(tokens[b, c]), float(totals[b, c]))
            self.finished[int(self.sentences[b])].add(ended)
        self.log_probs, order = totals.masked_fill(ends, NOTHING).topk(width)
        if self.observer is not None:
            lives = order.masked_fill((self.log_probs == NOTHING) | last[:, None], -1)
            ending = F.pad(ending, (0, totals.size(1) - width))
            step = Step(self.sentences, parents, tokens, totals, ending, lives)
            self.observer.chose(step.of(~self.done))
        self.done |= last
        parents, tokens = parents.gather(1, order), tokens.gather(1, order)
        history = self.said.gather(1, parents[..., None].expand(-1, -1, self.said.size(-1)))
        self.said = torch.cat((history, tokens[..., None]), -1)
        return parents, tokens

    def candidates(self, logits: Float[Tensor, "B W V"]) -> tuple[Tensor, Tensor, Tensor]:
        """The 2·width best continuations, the best first: enough for `width` that do not end.

        A beam of one has no second candidate, which makes it greedy search.
        """
        width = self.options.beam_size
        wanted = 2 * width if width > 1 else 1
        log_probs = self.next_log_probs(logits)
        values, tokens = top_k(log_probs, min(wanted, logits.size(-1)))  # (B, W, n) each
        totals = (values + self.log_probs[..., None]).flatten(1)
        best, order = totals.topk(min(wanted, totals.size(1)))
        parents, tokens = order // values.size(-1), tokens.flatten(1).gather(1, order)
        missing = max(wanted, width) - best.size(1)  # a vocabulary smaller than the beam
        if missing > 0:
            best = F.pad(best, (0, missing), value=NOTHING)
            parents, tokens = (F.pad(x, (0, missing)) for x in (parents, tokens))
        return best, parents, tokens

    def no_live_one_can_win(self) -> Tensor:
        """Whether the best live hypothesis, at the most favourable length, is still too bad.

        Log-probabilities only fall, so the best it can come to is what it has now over the
        penalty of the greatest length, or with a negative penalty of the next.
        """
        alpha, shortest = self.options.length_penalty, self.said.size(-1) + 1
        lengths = self.limits if alpha > 0 else torch.full_like(self.limits, shortest)
        attainable = self.log_probs[:, 0].double() / ((5 + lengths.double()) / 6) ** alpha
        to_beat = [self.finished[s].worst_score for s in self.sentences.tolist()]
        return torch.tensor(to_beat, dtype=torch.double) >= attainable
