"""Search tree: all candidates, with the reason why each branch ends.

    tree = SearchTree(bos, eos, options)
    search(decoder, sources, bos, eos, options, observer=tree)
    tree.nodes()

The search reports its candidates, with the log-probabilities that it compares.
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
    "went on",  # a continuation stayed in the beam or finished
    "best",  # finished as the answer
    "finished",  # finished as another of the n best
    "outscored",  # finished, with a lower score than the n best
    "pruned",  # not among the best of its step
    "overtaken",  # in the beam, but no continuation stayed in it
    "given up",  # in the beam when no hypothesis could beat the finished ones
    "given",  # part of a forced target, without search
]
FATES: tuple[Fate, ...] = get_args(Fate)
Choice = tuple[int, float]  # a token and its log-probability


@dataclass(frozen=True)
class Node:
    """A token that continues those of its ancestors."""

    parent: int | None  # index of the parent node; None for the root, <s>
    token: int
    log_probability: float  # of all tokens up to this one
    score: float  # log-probability / length penalty
    fate: Fate
    complete: bool | None = None  # if finished: True by </s>, False at the length limit
    next: tuple[Choice, ...] = ()  # the most likely next tokens, if computed


@dataclass
class _OpenNode:
    """A node of a running search."""

    parent: int | None
    token: int
    log_probability: float
    depth: int
    in_beam: bool = False
    complete: bool | None = None
    next: tuple[Choice, ...] = ()


@dataclass
class _Sentence:
    """Nodes of one sentence; `slots` are the nodes in the beam."""

    nodes: list[_OpenNode] = field(default_factory=list)
    slots: list[int | None] = field(default_factory=list)

    def add(self, parent: int, token: int, log_probability: float) -> int:
        depth = self.nodes[parent].depth + 1
        self.nodes.append(_OpenNode(parent, token, log_probability, depth))
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
            root = _OpenNode(None, self.bos, 0.0, 0, in_beam=True)
            sentence, at, total = _Sentence([root]), 0, 0.0
            for token, row in zip(tokens, rows, strict=True):
                sentence.nodes[at].next = self._most_likely(row)
                total += float(row[token])
                at = sentence.add(at, token, total)
                sentence.nodes[at].in_beam = True
            sentence.slots = [at]
            self.sentences.append(sentence)

    def on_scores(self, sentences: Ids, log_probs: Values) -> None:
        for number, rows in zip(sentences.tolist(), log_probs, strict=True):
            sentence = self.sentences[number]
            for node, row in zip(sentence.slots, rows, strict=True):
                if node is not None:
                    sentence.nodes[node].next = self._most_likely(row)

    def on_step(self, step: Step) -> None:
        for r, number in enumerate(step.sentences.tolist()):
            self._grow(self.sentences[number], step, r)

    def _grow(self, sentence: _Sentence, step: Step, r: int) -> None:
        parents, tokens = step.parents[r].tolist(), step.tokens[r].tolist()
        totals, ended = step.log_probs[r].tolist(), step.ended[r].tolist()
        candidates: list[int | None] = []  # their nodes
        for parent, token, total, ends in zip(parents, tokens, totals, ended, strict=True):
            at = sentence.slots[parent]
            if at is None or isinf(total):
                candidates.append(None)
                continue
            candidates.append(sentence.add(at, token, total))
            if ends:
                sentence.nodes[-1].complete = token == self.eos
        survivors = step.survivors[r].tolist()
        sentence.slots = [None if c < 0 else candidates[c] for c in survivors]
        for node in sentence.slots:
            if node is not None:
                sentence.nodes[node].in_beam = True

    def _most_likely(self, log_probs: Values) -> tuple[Choice, ...]:
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

    def _score(self, node: _OpenNode) -> float:
        depth, alpha = max(node.depth, 1), self.options.length_penalty
        return node.log_probability / penalty(depth, alpha, self.counted)

    def _fates(self, grown: _Sentence, scores: Sequence[float]) -> list[Fate]:
        ended = [i for i, node in enumerate(grown.nodes) if node.complete is not None]
        ranked = sorted(ended, key=lambda i: -scores[i])  # stable, like the sorting of the search
        parents = {n.parent for n in grown.nodes if n.in_beam or n.complete is not None}
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
                fates.append("overtaken" if node.in_beam else "pruned")
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
