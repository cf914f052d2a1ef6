"""Figures of every head over many texts: how sharp, how far, where to, and who does the same.

A head is called by its place if it spends at least half of its attention there; heads that agree
have a small Jensen–Shannon divergence. Of cross-attention also how much its links tell: the mutual
information between the source word and the target word that a head links, which is highest where
links are right (see `alignment.most_telling`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.inspect import maps
from glassformer.inspect.alignment import Head
from glassformer.inspect.heads import PLACES, measures, pairwise_divergence
from glassformer.inspect.links import TextPair, mutual_information
from glassformer.inspect.maps import Attention, Kind
from glassformer.inspect.masking import HeadIndex
from glassformer.inspect.word_attention import split_words, word_attentions
from glassformer.inspect.words import mark_ids
from glassformer.pipeline import Classifier, Pipeline, Translator

MOST = 0.5  # of its attention that a head spends on the place that it is called by
Text = tuple[str, str]  # what is read, and what is said to it; of others than translators nothing


@dataclass(frozen=True)
class HeadFigures:
    """Means over all rows of all texts; layers and heads count from 1, as they are shown."""

    kind: Kind
    layer: int
    head: int
    entropy: float  # bits
    distance: float  # tokens
    places: dict[str, float]  # shares of attention
    role: str  # the place that it is called by, or nothing
    nearest: str  # the head of the same kind that it agrees with most
    divergence: float  # from that one, in bits: 0 alike, 1 disjoint
    mean_divergence: float  # from all others
    telling: float | None = None  # bits, of cross-attention
    importance: float | None = None  # change in BLEU without it
    importance_p: float | None = None  # of a change as large by chance

    @property
    def name(self) -> str:
        return f"{self.layer}.{self.head}"


@dataclass(frozen=True)
class HeadStatistics:
    texts: int
    heads: list[HeadFigures]
    divergences: dict[Kind, list[list[float]]]  # of every two heads, in the order of `heads`
    bleu: float | None = None  # of the whole model, that `importance` is against

    def with_importance(
        self, bleu: float, worth: dict[HeadIndex, tuple[float, float | None]]
    ) -> "HeadStatistics":
        """`worth` is the change without each head, and its p."""
        heads = []
        for one in self.heads:
            change, p = worth[one.kind, one.layer - 1, one.head - 1]
            heads.append(replace(one, importance=change, importance_p=p))
        return replace(self, heads=heads, bleu=bleu)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Sums:
    """Of one kind: sums over rows, and of how many rows."""

    values: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)
    divergence: Tensor | None = None
    rows: int = 0

    def add(self, weights: Tensor, kind: Kind) -> None:
        for name, rows in measures(weights.double(), kind).items():
            there = ~rows.isnan()
            self.values[name] = self.values.get(name, 0) + rows.nan_to_num().sum(-1)
            self.counts[name] = self.counts.get(name, 0) + there.sum(-1)
        apart = pairwise_divergence(weights.double().flatten(0, 1)).sum(-1)
        self.divergence = apart if self.divergence is None else self.divergence + apart
        self.rows += weights.size(-2)

    def mean(self, name: str) -> Tensor:
        """0 where no text was long enough to have such a place."""
        return self.values[name] / self.counts[name].clamp(min=1)


def head_statistics(
    model: Pipeline,
    texts: Sequence[Text],
    *,
    truncate: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> HeadStatistics:
    """Of every head of `model` (of an ensemble, the first) over `texts`; a tick for each."""
    sums: dict[Kind, _Sums] = {}
    for text in texts:
        for kind, weights in _attention(model, text, truncate).items():
            sums.setdefault(kind, _Sums()).add(weights, kind)
        tick()
    telling = _telling(model, texts) if isinstance(model, Translator) else {}
    heads = [one for kind, found in sums.items() for one in _figures(kind, found, telling)]
    divergences = {
        kind: (found.divergence / found.rows).tolist()
        for kind, found in sums.items()
        if found.divergence is not None
    }
    return HeadStatistics(len(texts), heads, divergences)


def _attention(model: Pipeline, text: Text, truncate: bool) -> Attention:
    """A translator is made to say what is given, a language model to say the text."""
    longest = model.settings.data.max_length if truncate else None
    (read,) = model.tokenizer.encode([text[0]])
    read = read[:longest]
    bos, eos = mark_ids(model.tokenizer)
    if isinstance(model, Classifier):
        return maps.read(model.model, torch.tensor([[bos, *read]]))[1]
    if not isinstance(model, Translator):
        return maps.decode([model.model], None, [bos, *read])[1]
    (said,) = model.target_tokenizer.encode([text[1]])
    inputs = [mark_ids(model.target_tokenizer)[0], *said[:longest]]
    return maps.decode([model.model], [*read, eos], inputs)[1]


def _figures(kind: Kind, found: _Sums, telling: dict[tuple[int, int], float]) -> list[HeadFigures]:
    assert found.divergence is not None
    layers, heads = found.mean("entropy").shape
    names = [f"{layer + 1}.{head + 1}" for layer in range(layers) for head in range(heads)]
    apart = found.divergence / found.rows
    others = apart.clone().fill_diagonal_(torch.inf)  # nobody is compared with itself
    figures = []
    for n, name in enumerate(names):
        layer, head = divmod(n, heads)
        places = {place: float(found.mean(place)[layer, head]) for place in PLACES[kind]}
        most = max(places, key=places.__getitem__)
        alone = len(names) == 1
        figures.append(
            HeadFigures(
                kind=kind,
                layer=layer + 1,
                head=head + 1,
                entropy=float(found.mean("entropy")[layer, head]),
                distance=float(found.mean("distance")[layer, head]),
                places=places,
                role=most if places[most] >= MOST else "",
                nearest=name if alone else names[int(others[n].argmin())],
                divergence=0.0 if alone else float(others[n].min()),
                mean_divergence=0.0 if alone else float(apart[n].sum() / (len(names) - 1)),
                telling=telling.get((layer, head)) if kind == "cross" else None,
            )
        )
    return figures


def _telling(model: Translator, texts: Sequence[Text]) -> dict[tuple[int, int], float]:
    """Of each head of cross-attention, what its links tell, as words are said or as they are read.

    Texts that are too long to be read whole are left out.
    """
    pairs = [
        TextPair(source, target, split_words(source), split_words(target))
        for source, target in texts
        if _fits(model, source, target)
    ]
    linked: dict[Head, Counter[tuple[str, str]]] = {}
    for pair, words in zip(pairs, word_attentions(model, pairs), strict=True):
        for layer in range(words.size(1)):
            for head in (Head(layer, h, k) for h in range(words.size(2)) for k in (0, 1)):
                said = linked.setdefault(head, Counter())
                for source, target in head.links(head.of(words)):
                    said[pair.source_words[source].lower(), pair.target_words[target].lower()] += 1
    bits = {head: mutual_information(said) for head, said in linked.items() if said}
    best: dict[tuple[int, int], float] = {}
    for head, value in bits.items():
        assert head.layer is not None and head.head is not None
        place = head.layer, head.head
        best[place] = max(value, best.get(place, 0.0))
    return best


def _fits(model: Translator, source: str, target: str) -> bool:
    (read,), (said,) = (
        model.source_tokenizer.encode([source]),
        model.target_tokenizer.encode([target]),
    )
    if not (split_words(source) and split_words(target)):
        return False
    return max(len(read), len(said)) <= model.max_length
