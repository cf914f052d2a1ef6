"""Everything that a search has thought of, as a tree, with why each branch ends where it ends.

    tree = SearchTree(bos, eos, options)
    search(model, source, bos, eos, options, observer=tree)
    tree.nodes()

The nodes are the search's own: it reports them as it makes them. Their log-probabilities are the
numbers that it compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isinf
from typing import Literal, get_args

from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decode.observer import Step
from glassformer.decode.options import SearchOptions, penalty

TOP = 10  # tokens that are kept of what may follow a hypothesis

Fate = Literal[
    "went on",  # at least one of its continuations stayed in the beam, or ended
    "best",  # ended, and is the answer
    "finished",  # ended, and is another of the n best
    "outscored",  # ended, and the n best that ended are better
    "pruned",  # was not among the best of its step
    "overtaken",  # stayed in the beam, but none of its continuations did
    "given up",  # was alive when nothing could become better than what had ended
    "given",  # was not searched for: the model was made to say it
]
FATES: tuple[Fate, ...] = get_args(Fate)
Choice = tuple[int, float]  # a token and its log-probability


@dataclass(frozen=True)
class Node:
    """A token said after those of its ancestors."""

    parent: int | None  # its number among the nodes; the root, which is the mark <s>, has none
    token: int
    log_probability: float  # of all that was said up to here
    score: float  # that, over the length penalty of its length
    fate: Fate
    complete: bool | None = None  # if it ended: by the end mark, or (False) where room ended
    next: tuple[Choice, ...] = ()  # the likeliest to follow, by the model, if it was asked


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
    """The nodes of one sentence; `slots` are those that the hypotheses of the beam stand at."""

    nodes: list[_Growing] = field(default_factory=list)
    slots: list[int | None] = field(default_factory=list)

    def add(self, parent: int, token: int, log_probability: float) -> int:
        depth = self.nodes[parent].depth + 1
        self.nodes.append(_Growing(parent, token, log_probability, depth))
        return len(self.nodes) - 1


class SearchTree:
    """An `Observer`: the tree of each sentence of a batch."""

    def __init__(self, bos: int, eos: int, options: SearchOptions, top: int = TOP) -> None:
        self.bos, self.eos, self.options, self.top = bos, eos, options, top
        self.sentences: list[_Sentence] = []

    def began(self, said: Int[Tensor, "B P"], log_probs: Float[Tensor, "B P V"]) -> None:
        width = self.options.n_best if self.options.sample else 1
        for tokens, likely in zip(said.tolist(), log_probs, strict=True):
            root = _Growing(None, self.bos, 0.0, 0, lived=True)
            sentence, at, total = _Sentence([root]), 0, 0.0
            for token, row in zip(tokens, likely, strict=True):
                sentence.nodes[at].next = self._likeliest(row)
                total += float(row[token])
                at = sentence.add(at, token, total)
                sentence.nodes[at].lived = True
            sentence.slots = [at] * width
            self.sentences.append(sentence)

    def heard(self, sentences: Int[Tensor, "R"], log_probs: Float[Tensor, "R W V"]) -> None:
        for number, rows in zip(sentences.tolist(), log_probs, strict=True):
            sentence = self.sentences[number]
            for node, row in zip(sentence.slots, rows, strict=True):
                if node is not None:
                    sentence.nodes[node].next = self._likeliest(row)

    def chose(self, step: Step) -> None:
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
        lives = step.lives[r].tolist()
        sentence.slots = [None if c < 0 else places[c] for c in lives]
        for node in sentence.slots:
            if node is not None:
                sentence.nodes[node].lived = True

    def _likeliest(self, log_probs: Float[Tensor, "V"]) -> tuple[Choice, ...]:
        values, tokens = log_probs.topk(min(self.top, len(log_probs)))
        found = zip(tokens.tolist(), values.tolist(), strict=True)
        return tuple((token, value) for token, value in found if value > -inf)

    def nodes(self, sentence: int = 0) -> list[Node]:
        """Of a search that has ended. Parents come before their children."""
        grown = self.sentences[sentence]
        scores = [self._score(node) for node in grown.nodes]
        fates = self._fates(grown, scores)
        return [
            Node(n.parent, n.token, n.log_probability, score, fate, n.complete, n.next)
            for n, score, fate in zip(grown.nodes, scores, fates, strict=True)
        ]

    def _score(self, node: _Growing) -> float:
        return node.log_probability / penalty(max(node.depth, 1), self.options.length_penalty)

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
    """From the first token after the root to `last`."""
    found: list[int] = []
    at: int | None = last
    while at is not None and nodes[at].parent is not None:
        found.append(at)
        at = nodes[at].parent
    return found[::-1]


def best(nodes: Sequence[Node]) -> int:
    """The node at which the answer ends."""
    return next(i for i, node in enumerate(nodes) if node.fate == "best")
