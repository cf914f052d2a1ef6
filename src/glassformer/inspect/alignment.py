"""Word alignment read off cross-attention, and its error rate against the truth.

A target word is linked to the source word that it attends to most. Which attention that is can be
read at two places: where the word is being said, or one step later, where it is being read
(`shift`); Chen et al. (2020) found the second to be the better one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.model.attention import record_attention
from glassformer.pipeline import Translator

Links = frozenset[tuple[int, int]]


class WordPair(Protocol):
    """A sentence and its translation, as text and as words, with links between these."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def source_words(self) -> tuple[str, ...]: ...
    @property
    def target_words(self) -> tuple[str, ...]: ...
    @property
    def alignment(self) -> Links: ...


@dataclass(frozen=True)
class Head:
    """One head of cross-attention; `shift` 1 reads it where the target word is the input."""

    layer: int
    head: int
    shift: int

    def __str__(self) -> str:
        when = "as the word is read" if self.shift else "as the word is said"
        return f"layer {self.layer + 1}, head {self.head + 1}, {when}"


def cross_attention(
    translator: Translator, pair: WordPair
) -> Float[Tensor, "layers H target source"]:
    """The attention of each target subword (and the end) to each source subword, forced.

    Row t is the step whose input is target position t: <s> first.
    """
    with torch.inference_mode(), record_attention(translator.model) as maps:
        translator.model(*translator.inputs(pair.source, pair.target))
    return torch.stack([w[0][0] for name, w in maps.items() if name.endswith("cross_attention")])


def word_attention(
    attention: Float[Tensor, "target source"], translator: Translator, pair: WordPair, shift: int
) -> Float[Tensor, "m n"]:
    """Attention between words: summed over a source word's subwords, averaged over a target's."""
    spans = translator.target_tokenizer.spans(pair.target)
    rows = subword_owners(spans, pair.target, pair.target_words)
    spans = translator.source_tokenizer.spans(pair.source)
    columns = subword_owners(spans, pair.source, pair.source_words)
    words = torch.zeros(len(pair.target_words), len(pair.source_words))
    for t, target_word in enumerate(rows):
        for s, source_word in enumerate(columns):
            if target_word is not None and source_word is not None:
                words[target_word, source_word] += attention[t + shift, s]
    sizes = torch.tensor([max(1, rows.count(i)) for i in range(len(pair.target_words))])
    return words / sizes[:, None]


def subword_owners(
    spans: Sequence[tuple[int, int]], text: str, words: Sequence[str]
) -> list[int | None]:
    """For each subword of `text`, by its span, the word that holds its last character."""
    owner: dict[int, int] = {}
    end = 0
    for number, word in enumerate(words):
        begin = text.index(word, end)
        end = begin + len(word)
        owner |= dict.fromkeys(range(begin, end), number)
    return [owner.get(stop - 1) for _, stop in spans]


def links(words: Float[Tensor, "m n"]) -> Links:
    """Each target word with the source word that it attends to most, as (source, target)."""
    return frozenset((int(s), t) for t, s in enumerate(words.argmax(-1)))


def error_rate(found: Iterable[Links], gold: Iterable[Links]) -> float:
    """AER = 1 - 2 |A ∩ G| / (|A| + |G|), over all sentences (Och and Ney, 2003; all links sure)."""
    pairs = list(zip(found, gold, strict=True))
    common = sum(len(a & g) for a, g in pairs)
    return 1 - 2 * common / sum(len(a) + len(g) for a, g in pairs)


def error_rates(translator: Translator, pairs: Sequence[WordPair]) -> dict[Head, float]:
    """The error rate of every head of every layer, read at both places, the best first."""
    attentions = [cross_attention(translator, pair) for pair in pairs]
    layers, heads = attentions[0].shape[:2]
    gold = [pair.alignment for pair in pairs]
    rates = {}
    for which in (Head(i, h, k) for i in range(layers) for h in range(heads) for k in (0, 1)):
        found = [
            links(word_attention(a[which.layer, which.head], translator, pair, which.shift))
            for a, pair in zip(attentions, pairs, strict=True)
        ]
        rates[which] = error_rate(found, gold)
    return dict(sorted(rates.items(), key=lambda item: item[1]))
