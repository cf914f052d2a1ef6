"""All candidates of a search as a tree, with the reason why each branch ends where it ends.

    tree = SearchTree(bos, eos, options)
    search(decoder, sources, bos, eos, options, observer=tree)
    tree.nodes()

The search reports the nodes as it makes them. Their log-probabilities are the numbers that it
compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isinf
from typing import Literal, get_args

import numpy as np

from glassformer.decode.decoder import Ids, Values
from glassformer.decode.observer import Step
from glassformer.decode.options import SearchOptions, penalty
from glassformer.decode.rows import top as best_tokens

TOP = 10  # most likely next tokens that a node keeps

Fate = Literal[
    "went on",  # at least one of its continuations stayed in the beam, or ended
    "best",  # ended, and is the answer
    "finished",  # ended, and is another of the n best
    "outscored",  # ended, and the n best that ended are better
    "pruned",  # was not among the best of its step
    "overtaken",  # stayed in the beam, but none of its continuations did
    "given up",  # was alive when nothing could become better than what had ended
    "given",  # was not searched for: it is part of a given target
]
FATES: tuple[Fate, ...] = get_args(Fate)
Choice = tuple[int, float]  # a token and its log-probability


@dataclass(frozen=True)
class Node:
    """A token that continues those of its ancestors."""

    parent: int | None  # its number among the nodes; the root, which is the mark <s>, has none
    token: int
    log_probability: float  # of all tokens up to here
    score: float  # log-probability / length penalty
    fate: Fate
    complete: bool | None = None  # if it ended: by the end mark, or (False) at the length limit
    next: tuple[Choice, ...] = ()  # the model's most likely next tokens, if they were computed


@dataclass
class _Growing:
    """A node whose fate is open."""

    parent: int | None
    token: int
    log_probability: float
    depth: int
    lived: bool = False
    complete: bool | None = None
    next: tuple[Choice, ...] = ()


@dataclass
class _Sentence:
    """The nodes of one sentence; `slots` are the nodes of the hypotheses of the beam."""

    nodes: list[_Growing] = field(default_factory=list)
    slots: list[int | None] = field(default_factory=list)

    def add(self, parent: int, token: int, log_probability: float) -> int:
        depth = self.nodes[parent].depth + 1
        self.nodes.append(_Growing(parent, token, log_probability, depth))
        return len(self.nodes) - 1


class SearchTree:
    """An `Observer` that builds the tree of each sentence of a batch."""

    def __init__(
        self, bos: int, eos: int, options: SearchOptions, top: int = TOP, counted: float = inf
    ) -> None:
        """`counted` is the greatest length that the length penalty counts."""
        self.bos, self.eos, self.options, self.top = bos, eos, options, top
        self.counted = counted
        self.sentences: list[_Sentence] = []

    def on_prefix(self, prefix: Ids, log_probs: Values) -> None:
        for tokens, rows in zip(prefix.tolist(), log_probs, strict=True):
            root = _Growing(None, self.bos, 0.0, 0, lived=True)
            sentence, at, total = _Sentence([root]), 0, 0.0
            for token, row in zip(tokens, rows, strict=True):
                sentence.nodes[at].next = self._likeliest(row)
                total += float(row[token])
                at = sentence.add(at, token, total)
                sentence.nodes[at].lived = True
            sentence.slots = [at]
            self.sentences.append(sentence)

    def on_scores(self, sentences: Ids, log_probs: Values) -> None:
        for number, rows in zip(sentences.tolist(), log_probs, strict=True):
            sentence = self.sentences[number]
            for node, row in zip(sentence.slots, rows, strict=True):
                if node is not None:
                    sentence.nodes[node].next = self._likeliest(row)

    def on_step(self, step: Step) -> None:
        for r, number in enumerate(step.sentences.tolist()):
            self._grow(self.sentences[number], step, r)

    def _grow(self, sentence: _Sentence, step: Step, r: int) -> None:
        parents, tokens = step.parents[r].tolist(), step.tokens[r].tolist()
        totals, ended = step.log_probs[r].tolist(), step.ended[r].tolist()
        places: list[int | None] = []  # the node of each candidate
        for parent, token, total, ends in zip(parents, tokens, totals, ended, strict=True):
            at = sentence.slots[parent]
            if at is None or isinf(total):
                places.append(None)
                continue
            places.append(sentence.add(at, token, total))
            if ends:
                sentence.nodes[-1].complete = token == self.eos
        survivors = step.survivors[r].tolist()
        sentence.slots = [None if c < 0 else places[c] for c in survivors]
        for node in sentence.slots:
            if node is not None:
                sentence.nodes[node].lived = True

    def _likeliest(self, log_probs: Values) -> tuple[Choice, ...]:
        values, tokens = best_tokens(np.asarray(log_probs), self.top)
        found = zip(tokens.tolist(), values.tolist(), strict=True)
        return tuple((token, value) for token, value in found if value > -inf)

    def nodes(self, sentence: int = 0) -> list[Node]:
        """Return the tree of a finished search. Parents come before their children."""
        grown = self.sentences[sentence]
        scores = [self._score(node) for node in grown.nodes]
        fates = self._fates(grown, scores)
        return [
            Node(n.parent, n.token, n.log_probability, score, fate, n.complete, n.next)
            for n, score, fate in zip(grown.nodes, scores, fates, strict=True)
        ]

    def _score(self, node: _Growing) -> float:
        depth, alpha = max(node.depth, 1), self.options.length_penalty
        return node.log_probability / penalty(depth, alpha, self.counted)

    def _fates(self, grown: _Sentence, scores: Sequence[float]) -> list[Fate]:
        ended = [i for i, node in enumerate(grown.nodes) if node.complete is not None]
        ranked = sorted(ended, key=lambda i: -scores[i])  # stable, as the search's own sorting is
        parents = {n.parent for n in grown.nodes if n.lived or n.complete is not None}
        fates: list[Fate] = []
        for i, node in enumerate(grown.nodes):
            if node.complete is not None:
                rank = ranked.index(i)
                named: Fate = "best" if rank == 0 else "finished"
                fates.append(named if rank < self.options.n_best else "outscored")
            elif i in parents:
                fates.append("went on")
            elif i in grown.slots:
                fates.append("given up")
            else:
                fates.append("overtaken" if node.lived else "pruned")
        return fates


def path(nodes: Sequence[Node], last: int) -> list[int]:
    """Return the nodes from the first token after the root to `last`."""
    found: list[int] = []
    at: int | None = last
    while at is not None and nodes[at].parent is not None:
        found.append(at)
        at = nodes[at].parent
    return found[::-1]


def best(nodes: Sequence[Node]) -> int:
    """Return the node at which the answer ends."""
    return next(i for i, node in enumerate(nodes) if node.fate == "best")
