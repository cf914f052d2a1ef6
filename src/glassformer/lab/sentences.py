"""The embedded grammar as a task of the lab: a few thousand sentences to learn to translate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

import numpy as np
import sacrebleu
from torch import nn

from glassformer.data import grammar
from glassformer.data.batch import Batch, Examples
from glassformer.data.batching import Indices, TokenBatches
from glassformer.data.ragged import Ragged
from glassformer.data.tokenizer import Tokenizer
from glassformer.lab.learning import HELD_OUT, Plan, Said, Task, small

SUBWORDS = 1_500  # nearly every word of the grammar is one of them
READ_FOR_SUBWORDS = 4_000  # pairs


@dataclass(frozen=True)
class Sentences(Task):
    """English to French. Each seed has `pairs` of its own, and goes through them again and again.

    The size of a batch is in cells of its longer side, as in training at large: sentences of like
    length come together.
    """

    name: str = "grammar"
    kind: Literal["tagger", "translator"] = "translator"
    pairs: int = 4_000

    @property
    def vocabulary(self) -> int:
        return len(subwords())

    def examples(self, seed: int, first: int, count: int) -> Examples:
        split, of_seed = ("valid", 0) if seed == HELD_OUT else ("train", seed + 1)
        return _tokenised(split, of_seed, first, count)

    def batch(self, seed: int, step: int, size: int) -> Batch:
        # Every epoch has as many batches as the first: where they are cut is decided by lengths.
        epoch, place = divmod(step, len(_epoch(self, seed, size, 0)))
        indices = _epoch(self, seed, size, epoch)[place]
        return self.examples(seed, 0, self.pairs).batch(indices)

    def held_out(self, size: int = 256) -> Batch:
        return self.examples(HELD_OUT, 0, size).batch(np.arange(size))


@lru_cache(maxsize=1)
def subwords() -> Tokenizer:
    """The same for all runs; the pairs that they are learned from are those of no run."""
    pairs = grammar.pairs("train", READ_FOR_SUBWORDS, seed=0)
    return Tokenizer.train((text for p in pairs for text in (p.source, p.target)), SUBWORDS)


@lru_cache(maxsize=4)
def _tokenised(split: str, seed: int, first: int, count: int) -> Examples:
    pairs = list(islice(grammar.pairs(split, first + count, seed), first, None))
    sides = ([p.source for p in pairs], [p.target for p in pairs])
    return Examples("translator", tuple(Ragged.of(subwords().encode(side)) for side in sides))


@lru_cache(maxsize=4)
def _epoch(task: Sentences, seed: int, size: int, number: int) -> list[Indices]:
    lengths = task.examples(seed, 0, task.pairs).lengths
    return TokenBatches(lengths, size, seed).epoch(number)


@dataclass(frozen=True)
class Lesson:
    """How a translator of the lab is taught: one way for all experiments that teach one."""

    task: Sentences
    plan: Plan
    width: int
    layers: int
    asked: int  # held-out sentences

    def translator(self, **changes: Any) -> nn.Module:
        """Like `small`, whose weights come from torch's generator."""
        layers = {"encoder_layers": self.layers, "decoder_layers": self.layers}
        return small(self.task, d_model=self.width, d_ff=2 * self.width, **layers | changes)

    def held_out(self) -> Batch:
        return self.task.held_out(self.asked)


_PLAN = Plan(rate=5e-3, warmup=30, schedule="linear", optimizer="muon", look_every=10**6)
LESSON = Lesson(Sentences(pairs=8_000), replace(_PLAN, steps=350, batch=1_024), 64, 2, 256)
QUICK = Lesson(Sentences(pairs=500), replace(_PLAN, steps=60, batch=384, warmup=5), 32, 1, 64)


def lesson(quick: bool) -> Lesson:
    return QUICK if quick else LESSON


def bleu(said: Said) -> float:
    """Of the texts, as sacreBLEU counts it."""
    return float(sacrebleu.corpus_bleu(_texts(said.answers), [_texts(said.right)]).score)


def _texts(rows: Sequence[Sequence[int]]) -> list[str]:
    return [subwords().decode(row) for row in rows]
