"""Word alignment read off cross-attention, and its error rate against the truth.

A target word is linked to the source word that it attends to most. Which attention that is can be
read at two places: where the word is being said, or one step later, where it is being read
(`shift`); Chen et al. (2020) found the second to be the better one in lower layers. Or it is linked
to the source word of whose attention it has the largest share (`share`): nouns and verbs are looked
at by the small words around them, too, and are thus left to their own translations. The translation
is given (forced), so that all of its steps are one pass.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log2
from typing import Protocol
from unicodedata import category

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from glassformer.errors import DataError, SettingsError
from glassformer.model.attention import record_attention
from glassformer.pipeline import Translator

BATCH_TOKENS = 2_048  # cells of the longer side; every attention of a batch is kept
TURN = 256  # pairs that are sorted by length and read together
RESAMPLES = 1_000  # of the bootstrap that an interval comes from
ENOUGH = 30  # sentences that tell one layer from another by the words that they link

Links = frozenset[tuple[int, int]]  # (source word, target word), from 0


# Words


class WordPair(Protocol):
    """A sentence and its translation, as text and as words in the order of the text."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def source_words(self) -> tuple[str, ...]: ...
    @property
    def target_words(self) -> tuple[str, ...]: ...


class AlignedPair(WordPair, Protocol):
    """The same with the truth."""

    @property
    def alignment(self) -> Links: ...


@dataclass(frozen=True)
class TextPair:
    """A pair of the user's own."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]


WORD = re.compile(
    r"""
      aujourd['’]hui
    | \d+ (?:[.,:/]\d+)+                 # 3.5  10:30
    | \w+? (?=n['’]t\b) | n['’]t\b       # do n't
    | (?<=\w) ['’] (?:s|d|m|re|ve|ll)\b  # king 's
    | \w+ (?:-\w+)*                      # dog  est-ce
      (?: ['’] (?=\w) (?! (?:s|d|m|re|ve|ll)\b ) )?  # l' homme
    | \S                                 # every mark by itself
    """,
    re.VERBOSE | re.IGNORECASE,
)


def split_words(text: str) -> tuple[str, ...]:
    """What stands between spaces, with punctuation split off, each mark a word of its own.

    Hyphens and what is within numbers stay (est-ce, 3.5). An apostrophe ends a word (l' homme),
    but English endings keep theirs (king 's, do n't). These are the words of the grammar.
    """
    # An accent that is a character of its own is part of its word, which \w does not know.
    plain = "".join("_" if category(c).startswith("M") else c for c in text)
    return tuple(text[slice(*found.span())] for found in WORD.finditer(plain))


def shares(
    spans: Sequence[tuple[int, int]], text: str, words: Sequence[str]
) -> Float[Tensor, "subwords words"]:
    """How much of each subword stands in each word: all of it in one, but for such as "d'une"."""
    places, end = [], 0
    for word in words:
        begin = text.index(word, end)
        end = begin + len(word)
        places.append((begin, end))
    pieces = torch.tensor(spans).reshape(-1, 2, 1)
    begins, ends = torch.tensor(places).reshape(-1, 2).unbind(1)
    common = torch.minimum(pieces[:, 1], ends) - torch.maximum(pieces[:, 0], begins)
    return F.normalize(common.clamp(min=0).float(), p=1, dim=1)


# Attention between words


def cross_attention(
    translator: Translator, pair: WordPair
) -> Float[Tensor, "layers H target source"]:
    """The attention of each target subword (and the end) to each source subword, forced.

    Row t is the step whose input is target position t: <s> first.
    """
    return _forced(translator, [translator.inputs(pair.source, pair.target)])[0]


def _forced(
    translator: Translator, inputs: Sequence[tuple[Tensor, Tensor]]
) -> Float[Tensor, "B layers H target source"]:
    """Of an ensemble, the first."""
    model = translator.model
    sides = ([row for (row,) in side] for side in zip(*inputs, strict=True))
    source, target = (pad_sequence(rows, True, model.pad_id) for rows in sides)
    with torch.inference_mode(), record_attention(model) as maps:
        model.features(source, target)
    return torch.stack([w[0] for name, w in maps.items() if name.endswith("cross_attention")], 1)


def word_attention(
    attention: Float[Tensor, "*heads target source"],
    translator: Translator,
    pair: WordPair,
    shift: int,
) -> Float[Tensor, "*heads m n"]:
    """Attention between words: summed over a source word's subwords, averaged over a target's.

    What goes to the end of the source, which is no word, is left out.
    """
    return _merged(attention, *_words(translator, pair), shift)


def _words(
    translator: Translator, pair: WordPair
) -> tuple[Float[Tensor, "m target"], Float[Tensor, "source n"]]:
    """The mean over a target word's subwords, and the sum over a source word's, as matrices."""
    targets = translator.target_tokenizer.spans(pair.target)
    sources = translator.source_tokenizer.spans(pair.source)
    mean = F.normalize(shares(targets, pair.target, pair.target_words).T, p=1, dim=1)
    return mean, shares(sources, pair.source, pair.source_words)


def _merged(attention: Tensor, mean: Tensor, total: Tensor, shift: int) -> Tensor:
    return mean @ attention[..., shift : shift + mean.size(1), : len(total)] @ total


def word_attentions(
    translator: Translator, pairs: Sequence[WordPair], batch_tokens: int = BATCH_TOKENS
) -> Iterator[Float[Tensor, "2 layers H m n"]]:
    """`word_attention` of every head for each pair, at [0] as words are said, at [1] as read."""
    for first in range(0, len(pairs), TURN):
        turn = pairs[first : first + TURN]
        inputs = [translator.inputs(pair.source, pair.target) for pair in turn]
        found: dict[int, Tensor] = {}
        for batch in _batches([max(x.size(1) for x in both) for both in inputs], batch_tokens):
            attentions = _forced(translator, [inputs[i] for i in batch])
            for i, attention in zip(batch, attentions, strict=True):
                words = _words(translator, turn[i])
                found[i] = torch.stack([_merged(attention, *words, shift) for shift in (0, 1)])
        yield from (found[i] for i in range(len(turn)))


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Those of like length together, the longest first."""
    rest = sorted(range(len(lengths)), key=lengths.__getitem__)
    while rest:
        count = max(1, budget // lengths[rest[-1]])
        yield rest[-count:]
        del rest[-count:]


def check_lines(texts: Sequence[str], lengths: Iterable[int], longest: int, side: str) -> None:
    """Refuse what is longer than the model was trained for, before the work."""
    for number, (text, length) in enumerate(zip(texts, lengths, strict=True), 1):
        if length > longest:
            raise DataError(
                f"Line {number:,} of the {side} has {length:,} subwords: {text[:40]!r}…",
                f"The model was trained on no more than {longest}.",
                "Cut it into sentences, or empty the line.",
            )


# Heads, and averages of them


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


# Links


def by_share(attention: Float[Tensor, "*any m n"]) -> Float[Tensor, "*any m n"]:
    """Of what each source word gets in all, the part that comes from each target word."""
    return F.normalize(attention, p=1, dim=-2)


def most(attention: Float[Tensor, "*any m n"]) -> Int[Tensor, "*any m"]:
    """The source word that each target word attends to most.

    -1 for a word without attention, since no subword stands for it.
    """
    value, where = attention.max(-1)
    return where.masked_fill(value <= 0, -1)


def links(attention: Float[Tensor, "m n"]) -> Links:
    """Each target word with the source word that it attends to most, as (source, target)."""
    return _as_links(most(attention).tolist())


def _as_links(sources: Sequence[int]) -> Links:
    return frozenset((source, target) for target, source in enumerate(sources) if source >= 0)


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


def pharaoh(found: Links) -> str:
    """0-0 1-2: source word - target word, as aligners have written it since Pharaoh."""
    return " ".join(f"{source}-{target}" for source, target in sorted(found))


def diagonal(pair: WordPair) -> Links:
    """Each target word with the source word at the same place, relative to the lengths."""
    m, n = len(pair.target_words), len(pair.source_words)
    return frozenset(((2 * t + 1) * n // (2 * m), t) for t in range(m))


def at_random(pair: WordPair, random: np.random.Generator) -> Links:
    """Each target word with any source word."""
    drawn = random.integers(len(pair.source_words), size=len(pair.target_words))
    return frozenset((int(source), target) for target, source in enumerate(drawn))


def one_true_link(pair: AlignedPair) -> Links:
    """The best that one link for each target word can be; a word that has none is left out."""
    return frozenset({target: (source, target) for source, target in pair.alignment}.values())


# Error rates


@dataclass(frozen=True)
class Tally:
    """For each sentence, how many links are found and true, found, and true."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, found: Iterable[Links], gold: Iterable[Links]) -> "Tally":
        pairs = zip(found, gold, strict=True)
        return cls(np.array([(len(a & g), len(a), len(g)) for a, g in pairs], np.int64))

    @property
    def error_rate(self) -> float:
        return float(_rate(self.counts.sum(0)))

    @property
    def precision(self) -> float:
        common, found, _ = self.counts.sum(0)
        return float(common / max(1, found))

    @property
    def recall(self) -> float:
        common, _, gold = self.counts.sum(0)
        return float(common / max(1, gold))

    def interval(self, resamples: int = RESAMPLES, seed: int = 0) -> tuple[float, float]:
        """95% of the error rates of as many sentences drawn from these: the bootstrap."""
        count = len(self.counts)
        drawn = np.random.default_rng(seed).multinomial(count, [1 / count] * count, resamples)
        low, high = np.percentile(_rate(drawn @ self.counts), (2.5, 97.5))
        return float(low), float(high)


def _rate(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """AER = 1 - 2 |A ∩ G| / (|A| + |G|) (Och and Ney, 2003), where all true links are sure."""
    common, found, gold = np.moveaxis(counts, -1, 0)
    return 1 - 2 * common / (found + gold)


def error_rate(found: Iterable[Links], gold: Iterable[Links]) -> float:
    """The alignment error rate over the links of all sentences."""
    return Tally.of(found, gold).error_rate


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
    """The error rate of every head of every layer, read at both places, the best first.

    What is not one head's own greatest attention, averages and shares, is left out.
    """
    rates = {head: tally.error_rate for head, tally in tallies(translator, pairs).items()}
    plain = [head for head in rates if head.head is not None and not head.share]
    return {head: rates[head] for head in sorted(plain, key=rates.__getitem__)}


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
                said.update((a[source], b[target]) for source, target in _as_links(sources))
        tick()
    return max(linked, key=lambda head: mutual_information(linked[head]))


def mutual_information(pairs: Counter[tuple[str, str]]) -> float:
    """How much, in bits, one side of a pair tells of the other."""
    left, right = Counter[str](), Counter[str]()
    for (a, b), count in pairs.items():
        left[a] += count
        right[b] += count
    total = pairs.total()
    shares = ((n / total, n * total / (left[a] * right[b])) for (a, b), n in pairs.items())
    return sum(share * log2(ratio) for share, ratio in shares)
