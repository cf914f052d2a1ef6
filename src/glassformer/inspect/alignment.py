"""Word alignment by cross-attention: which head to use, at which step, and its error rate.

The attention of a target word is taken at the step that outputs the word, or one step later, when
the word is the decoder's input (`shift`). Chen et al. (2020) find the second better in lower
layers. `links.py` turns attention into links.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.errors import SettingsError
from glassformer.inspect.links import (
    AlignedPair,
    Links,
    Tally,
    WordPair,
    as_links,
    by_share,
    links,
    mutual_information,
    strongest_source,
)
from glassformer.inspect.word_attention import BATCH_TOKENS, word_attentions
from glassformer.pipeline import Translator

# Fewest sentences for a choice by mutual information: fewer have too few links that repeat
# (tests/inspect/test_alignment.py checks the choice with 40).
MIN_SENTENCES = 30


@dataclass(frozen=True)
class Head:
    """A head of cross-attention; the mean of a layer without `head`, of all without `layer`.

    With `shift` = 1 a target word's attention is that of the step whose input it is. With `share`
    links are made by share: see `links.py`.
    """

    layer: int | None
    head: int | None
    shift: int
    share: bool = False

    @classmethod
    def parse(cls, name: str) -> "Head":
        """Parse a name such as "3.2+1:share"."""
        match = re.fullmatch(r"(?:all|([1-9]\d*)(?:\.([1-9]\d*))?)(\+1)?(:share)?", name)
        if match is None:
            raise SettingsError(
                f"There is no head {name!r}.",
                "A head is layer.head; a layer alone is the mean of its heads, and all the mean of "
                "all heads. +1 uses the next step, :share links words by share of attention.",
                "For example: 3.2, 3.2+1, 3, 3:share, all+1:share.",
            )
        layer, head, shift, share = match.groups()
        i, h = (int(number) - 1 if number else None for number in (layer, head))
        return cls(i, h, 1 if shift else 0, bool(share))

    @property
    def name(self) -> str:
        parts = [str(number + 1) for number in (self.layer, self.head) if number is not None]
        return (".".join(parts) or "all") + "+1" * self.shift + ":share" * self.share

    @property
    def family(self) -> str:
        """The group of heads from which one is chosen."""
        averaged = "all averaged" if self.layer is None else "a layer averaged"
        kind = averaged if self.head is None else "one head"
        return f"{kind}, {'as input' if self.shift else 'as output'}" + ", by share" * self.share

    def __str__(self) -> str:
        layer = "all" if self.layer is None else f"layer {self.layer + 1},"
        head = "heads averaged" if self.head is None else f"head {self.head + 1}"
        step = "word as input" if self.shift else "word as output"
        return f"{layer} {head}, {step}" + ", by share" * self.share

    def of(self, words: Float[Tensor, "2 layers H m n"]) -> Float[Tensor, "m n"]:
        """Select the attention of this head."""
        layers = words[self.shift]
        heads = layers.flatten(0, 1) if self.layer is None else layers[self.layer]
        return heads.mean(0) if self.head is None else heads[self.head]

    def links(self, attention: Float[Tensor, "m n"]) -> Links:
        return links(by_share(attention) if self.share else attention)

    def check(self, layers: int, heads: int) -> None:
        if (self.layer or 0) >= layers or (self.head or 0) >= heads:
            raise SettingsError(
                f"The model has no head {self.name}.",
                f"Its decoder has {layers} layers with {heads} heads each.",
                f"Name one from 1.1 to {layers}.{heads}.",
            )


@cache
def readings(layers: int, heads: int) -> tuple[Head, ...]:
    """Return every head, the mean of each layer and of all, with every shift and share."""
    single = [(i, h) for i in range(layers) for h in range(heads)]
    every = [*single, *((i, None) for i in range(layers)), (None, None)]
    ways = [(shift, share) for shift in (0, 1) for share in (False, True)]
    return tuple(Head(*which, *way) for way in ways for which in every)


def links_of_all(words: Float[Tensor, "2 layers H m n"]) -> Int[Tensor, "readings m"]:
    """Return `strongest_source` of each of the `readings`, in their order."""
    averages = words.mean(2), words.mean((1, 2))[:, None]
    attention = torch.cat([words.flatten(1, 2), *averages], dim=1)
    return strongest_source(torch.stack([attention, by_share(attention)], 1).flatten(0, 2))


def align(
    translator: Translator,
    pairs: Sequence[WordPair],
    head: Head,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[tuple[Float[Tensor, "m n"], Links]]:
    """Yield the attention of `head` between the words of each pair, and its links."""
    has_words = [bool(pair.source_words and pair.target_words) for pair in pairs]
    nonempty = [pair for pair, words in zip(pairs, has_words, strict=True) if words]
    attentions = word_attentions(translator, nonempty, batch_tokens)
    for pair, words in zip(pairs, has_words, strict=True):
        if words:
            attention = head.of(next(attentions))
            yield attention, head.links(attention)
        else:
            yield torch.zeros(len(pair.target_words), len(pair.source_words)), frozenset()


# Error rates


def tallies(
    translator: Translator,
    pairs: Sequence[AlignedPair],
    batch_tokens: int = BATCH_TOKENS,
    tick: Callable[[], None] = lambda: None,
) -> dict[Head, Tally]:
    """Count the links of every reading of cross-attention in one pass; a tick for each pair."""
    counts, heads = [], tuple[Head, ...]()
    for pair, words in zip(pairs, word_attentions(translator, pairs, batch_tokens), strict=True):
        heads, found = readings(*words.shape[1:3]), links_of_all(words)
        m, n = words.shape[-2:]
        true = torch.zeros(m, n + 1, dtype=torch.bool)  # the last column, -1, is for no link
        for source, target in pair.alignment:
            true[target, source] = True
        correct = true[torch.arange(m), found].sum(1)
        gold = torch.full_like(correct, len(pair.alignment))
        counts.append(torch.stack([correct, (found >= 0).sum(1), gold], 1).numpy())
        tick()
    return dict(zip(heads, map(Tally, np.stack(counts, 1)), strict=True))


def error_rates(translator: Translator, pairs: Sequence[AlignedPair]) -> dict[Head, float]:
    """Return the error rate of every reading of cross-attention, the best first."""
    rates = {head: tally.error_rate for head, tally in tallies(translator, pairs).items()}
    return {head: rates[head] for head in sorted(rates, key=rates.__getitem__)}


# Choice of a head


def best_of_each(dev: Mapping[Head, Tally]) -> dict[str, Head]:
    """Return the reading of each family with the lowest error rate."""
    families: dict[str, list[Head]] = {}
    for head in dev:
        families.setdefault(head.family, []).append(head)
    return {
        family: min(heads, key=lambda head: dev[head].error_rate)
        for family, heads in families.items()
    }


def most_informative(
    translator: Translator,
    pairs: Sequence[WordPair],
    batch_tokens: int = BATCH_TOKENS,
    tick: Callable[[], None] = lambda: None,
) -> Head:
    """Choose the mean of a layer, or of all, without gold links: by mutual information.

    Correct links repeat: a word has few translations. Links that are off by a word go to arbitrary
    words. So the mutual information between the two words of a link is highest where links are
    correct. Sharpness cannot tell a head from the same head one step later.
    Below `MIN_SENTENCES` the choice is the mean of all heads, word as output, by share.
    """
    if len(pairs) < MIN_SENTENCES:
        return Head(None, None, 0, share=True)
    linked: dict[Head, Counter[tuple[str, str]]] = {}
    for pair, words in zip(pairs, word_attentions(translator, pairs, batch_tokens), strict=True):
        a, b = ([w.lower() for w in side] for side in (pair.source_words, pair.target_words))
        found = zip(readings(*words.shape[1:3]), links_of_all(words).tolist(), strict=True)
        for head, sources in found:
            if head.head is None:
                counts = linked.setdefault(head, Counter())
                counts.update((a[source], b[target]) for source, target in as_links(sources))
        tick()
    return max(linked, key=lambda head: mutual_information(linked[head]))
