"""The built-in grammar as a translation task of a few thousand sentences."""

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
from glassformer.lab.learning import HELD_OUT, Outputs, Plan, Task, small_model

VOCABULARY = 1_500  # subwords: enough for one per word of the grammar, nearly
TOKENIZER_PAIRS = 4_000  # sentence pairs that the tokenizer is trained on


@dataclass(frozen=True)
class Sentences(Task):
    """English to French. Each seed has its own `pairs`, which are repeated every epoch.

    The batch size is in cells of the longer side; sentences of similar length share a batch.
    """

    name: str = "grammar"
    kind: Literal["tagger", "translator"] = "translator"
    pairs: int = 4_000

    @property
    def vocabulary(self) -> int:
        return len(subwords())

    def examples(self, seed: int, first: int, count: int) -> Examples:
        split, grammar_seed = ("valid", 0) if seed == HELD_OUT else ("train", seed + 1)
        return _tokenised(split, grammar_seed, first, count)

    def batch(self, seed: int, step: int, size: int) -> Batch:
        # Every epoch has as many batches as the first: lengths alone decide the cuts.
        epoch, index = divmod(step, len(_epoch(self, seed, size, 0)))
        indices = _epoch(self, seed, size, epoch)[index]
        return self.examples(seed, 0, self.pairs).batch(indices)

    def held_out(self, size: int = 256) -> Batch:
        return self.examples(HELD_OUT, 0, size).batch(np.arange(size))


@lru_cache(maxsize=1)
def subwords() -> Tokenizer:
    """Return the tokenizer of all runs, trained on pairs that no run uses."""
    pairs = grammar.pairs("train", TOKENIZER_PAIRS, seed=0)
    return Tokenizer.train((text for p in pairs for text in (p.source, p.target)), VOCABULARY)


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
class Setup:
    """Task, model size and training plan of all experiments that train a translator."""

    task: Sentences
    plan: Plan
    width: int
    layers: int
    held_out_size: int  # sentences

    def translator(self, **changes: Any) -> nn.Module:
        """Build a model as `small_model` does."""
        layers = {"encoder_layers": self.layers, "decoder_layers": self.layers}
        return small_model(self.task, d_model=self.width, d_ff=2 * self.width, **layers | changes)

    def held_out(self) -> Batch:
        return self.task.held_out(self.held_out_size)


_PLAN = Plan(rate=5e-3, warmup=30, schedule="linear", optimizer="muon", validate_every=10**6)
FULL = Setup(Sentences(pairs=8_000), replace(_PLAN, steps=350, batch=1_024), 64, 2, 256)
QUICK = Setup(Sentences(pairs=500), replace(_PLAN, steps=60, batch=384, warmup=5), 32, 1, 64)


def translation_setup(quick: bool) -> Setup:
    return QUICK if quick else FULL


def bleu(decoded: Outputs) -> float:
    """Return sacreBLEU of the decoded texts."""
    references = [_texts(decoded.references)]
    return float(sacrebleu.corpus_bleu(_texts(decoded.outputs), references).score)


def _texts(rows: Sequence[Sequence[int]]) -> list[str]:
    return [subwords().decode(row) for row in rows]
