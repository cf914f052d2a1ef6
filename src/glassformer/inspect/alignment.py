"""Word alignment by cross-attention: which head to read, where, and its error rate.

Attention can be read at two places: where the target word is being said, or one step later, where
it is being read (`shift`); Chen et al. (2020) found the second to be the better one in lower
layers. `links.py` makes links of it.
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
    most,
    mutual_information,
)
from glassformer.inspect.word_attention import BATCH_TOKENS, word_attentions
from glassformer.pipeline import Translator

ENOUGH = 30  # sentences that tell one layer from another by the words that they link


@dataclass(frozen=True)
class Head:
    """A head of cross-attention; no `head` is the average of its layer, no `layer` that of all.

    `shift` 1 reads it where the target word is the input; `share` is how it makes links.
    """

    layer: int | None
    head: int | None
    shift: int
    share: bool = False

    @classmethod
    def named(cls, name: str) -> "Head":
        """The head that `name` is the name of."""
        match = re.fullmatch(r"(?:all|([1-9]\d*)(?:\.([1-9]\d*))?)(\+1)?(:share)?", name)
        if match is None:
            raise SettingsError(
                f"There is no head {name!r}.",
                "A head is layer.head; a layer alone is the average of its heads, and all that of "
                "all. +1 reads it one step later, :share links words by their share of attention.",
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
        """What it has in common with others that one may choose it from."""
        averaged = "all averaged" if self.layer is None else "a layer averaged"
        kind = averaged if self.head is None else "one head"
        return f"{kind}, {'read' if self.shift else 'said'}" + ", by share" * self.share

    def __str__(self) -> str:
        layer = "all" if self.layer is None else f"layer {self.layer + 1},"
        head = "heads averaged" if self.head is None else f"head {self.head + 1}"
        when = "as the word is read" if self.shift else "as the word is said"
        return f"{layer} {head}, {when}" + ", by share" * self.share

    def of(self, words: Float[Tensor, "2 layers H m n"]) -> Float[Tensor, "m n"]:
        """What it attends to."""
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
    """Every head, the average of every layer and that of all, read and linked in every way."""
    single = [(i, h) for i in range(layers) for h in range(heads)]
    every = [*single, *((i, None) for i in range(layers)), (None, None)]
    ways = [(shift, share) for shift in (0, 1) for share in (False, True)]
    return tuple(Head(*which, *way) for way in ways for which in every)


def of_all(words: Float[Tensor, "2 layers H m n"]) -> Int[Tensor, "readings m"]:
    """`most` of each of the readings, in their order, at once."""
    averages = words.mean(2), words.mean((1, 2))[:, None]
    attention = torch.cat([words.flatten(1, 2), *averages], dim=1)
    return most(torch.stack([attention, by_share(attention)], 1).flatten(0, 2))


def align(
    translator: Translator,
    pairs: Sequence[WordPair],
    head: Head,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[tuple[Float[Tensor, "m n"], Links]]:
    """What `head` sees between the words of each pair, and the links that it makes of it."""
    full = [bool(pair.source_words and pair.target_words) for pair in pairs]
    there = [pair for pair, words in zip(pairs, full, strict=True) if words]
    attentions = word_attentions(translator, there, batch_tokens)
    for pair, words in zip(pairs, full, strict=True):
        if words:
            seen = head.of(next(attentions))
            yield seen, head.links(seen)
        else:
            yield torch.zeros(len(pair.target_words), len(pair.source_words)), frozenset()


# Error rates


def tallies(
    translator: Translator,
    pairs: Sequence[AlignedPair],
    batch_tokens: int = BATCH_TOKENS,
    tick: Callable[[], None] = lambda: None,
) -> dict[Head, Tally]:
    """Of every reading of cross-attention, in one pass; a tick for each pair."""
    counts, heads = [], tuple[Head, ...]()
    for pair, words in zip(pairs, word_attentions(translator, pairs, batch_tokens), strict=True):
        heads, found = readings(*words.shape[1:3]), of_all(words)
        m, n = words.shape[-2:]
        true = torch.zeros(m, n + 1, dtype=torch.bool)  # the last column is that of no link, -1
        for source, target in pair.alignment:
            true[target, source] = True
        right = true[torch.arange(m), found].sum(1)
        gold = torch.full_like(right, len(pair.alignment))
        counts.append(torch.stack([right, (found >= 0).sum(1), gold], 1).numpy())
        tick()
    return dict(zip(heads, map(Tally, np.stack(counts, 1)), strict=True))


def error_rates(translator: Translator, pairs: Sequence[AlignedPair]) -> dict[Head, float]:
    """The error rate of every reading of cross-attention, the best first."""
    rates = {head: tally.error_rate for head, tally in tallies(translator, pairs).items()}
    return {head: rates[head] for head in sorted(rates, key=rates.__getitem__)}


# The choice


def best_of_each(dev: Mapping[Head, Tally]) -> dict[str, Head]:
    """The reading of each family with the lowest error rate."""
    families: dict[str, list[Head]] = {}
    for head in dev:
        families.setdefault(head.family, []).append(head)
    return {
        family: min(heads, key=lambda head: dev[head].error_rate)
        for family, heads in families.items()
    }


def most_telling(
    translator: Translator,
    pairs: Sequence[WordPair],
    batch_tokens: int = BATCH_TOKENS,
    tick: Callable[[], None] = lambda: None,
) -> Head:
    """The average of a layer, or of all, whose links say most: a choice that needs no truth.

    Right links go from a word to its translation, the same again and again; links that are off by
    a word, however sharp, go to whatever stands there. So the mutual information between the source
    word and the target word of a link is highest where they are right. (Sharpness and coverage,
    which need no second sentence, cannot tell a head from the same head read a step too late.)
    Fewer than `ENOUGH` sentences do not show it: then it is the average of all, as words are said,
    by share.
    """
    if len(pairs) < ENOUGH:
        return Head(None, None, 0, share=True)
    linked: dict[Head, Counter[tuple[str, str]]] = {}
    for pair, words in zip(pairs, word_attentions(translator, pairs, batch_tokens), strict=True):
        a, b = ([w.lower() for w in side] for side in (pair.source_words, pair.target_words))
        found = zip(readings(*words.shape[1:3]), of_all(words).tolist(), strict=True)
        for head, sources in found:
            if head.head is None:
                said = linked.setdefault(head, Counter())
                said.update((a[source], b[target]) for source, target in as_links(sources))
        tick()
    return max(linked, key=lambda head: mutual_information(linked[head]))
