"""Beam search: the best hypotheses side by side, one token longer at every step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decode.constraints import Constraints
from glassformer.decode.options import Hypothesis, SearchOptions, penalty
from glassformer.decode.session import Session
from glassformer.decode.top_k import top_k

NOTHING = -torch.inf
CROWDED = 4  # finished sentences leave when they are one in so many: leaving copies the cache


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


class Beam:
    """One batch in beam search. Live hypotheses are sorted, the best of each sentence first."""

    def __init__(
        self,
        session: Session,
        rules: Constraints,
        options: SearchOptions,
        limits: Int[Tensor, "B"],
        said: Int[Tensor, "B T"],
        log_probs: Float[Tensor, "B"],
    ) -> None:
        self.session, self.rules, self.options, self.limits = session, rules, options, limits
        self.said = said[:, None]  # (B, W, T); one hypothesis until the first step
        self.log_probs = log_probs[:, None]  # (B, W)
        self.finished = [Finished(options.n_best) for _ in said]
        self.sentences = torch.arange(len(said))  # whose row each row is
        self.done = torch.zeros(len(said), dtype=torch.bool)

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
        last = self.limits == self.said.size(-1) + 1  # (B,) no room for another token
        width = self.options.beam_size
        ending = (ends | last[:, None])[:, :width] & (totals[:, :width] > NOTHING)
        ending &= ~self.done[:, None]
        for b, c in ending.nonzero().tolist():
            said = self.said[b, parents[b, c]].tolist()
            self.finish(b, said, int(tokens[b, c]), float(totals[b, c]))
        self.done |= last
        self.log_probs, order = totals.masked_fill(ends, NOTHING).topk(width)
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
        norm = self.rules.normalise(logits)
        self.rules.apply(logits, self.said)
        values, tokens = top_k(logits, min(wanted, logits.size(-1)))  # (B, W, n) each
        totals = (values + (self.log_probs - norm)[..., None]).flatten(1)
        best, order = totals.topk(min(wanted, totals.size(1)))
        parents, tokens = order // values.size(-1), tokens.flatten(1).gather(1, order)
        missing = max(wanted, width) - best.size(1)  # a vocabulary smaller than the beam
        if missing > 0:
            best = torch.nn.functional.pad(best, (0, missing), value=NOTHING)
            parents, tokens = (torch.nn.functional.pad(x, (0, missing)) for x in (parents, tokens))
        return best, parents, tokens

    def finish(self, row: int, said: list[int], token: int, log_probability: float) -> None:
        complete = token == self.rules.eos
        score = log_probability / penalty(len(said) + 1, self.options.length_penalty)
        ids = said if complete else [*said, token]
        hypothesis = Hypothesis(ids, log_probability, score, complete)
        self.finished[int(self.sentences[row])].add(hypothesis)

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

    def let_go(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Sentences that are done leave the batch, as soon as they crowd it."""
        if self.done.sum() * CROWDED < len(self.done):
            return parents, tokens
        going = (~self.done).nonzero().flatten()
        self.session.keep(going)
        self.rules.keep(going)
        self.said, self.log_probs = self.said[going], self.log_probs[going]
        self.sentences, self.limits = self.sentences[going], self.limits[going]
        self.done = self.done[going]
        return parents[going], tokens[going]
