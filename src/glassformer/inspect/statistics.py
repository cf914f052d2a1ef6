"""Statistics of every head over many texts: entropy, distance, role, similar heads.

A head's role is the position that gets at least half of its attention. Similar heads have a small
Jensen–Shannon divergence. Heads of cross-attention also have the mutual information between the
source and target words that they link (see `alignment.most_informative`).
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
from glassformer.pipeline import Classifier, Embedder, Pipeline, Translator

ROLE_SHARE = 0.5  # of a head's attention: only one position can have more
Text = tuple[str, str]  # source and target; the target is unused unless the model translates


@dataclass(frozen=True)
class HeadFigures:
    """Means of one head over all rows of all texts; layers and heads count from 1."""

    kind: Kind
    layer: int
    head: int
    entropy: float  # bits
    distance: float  # tokens
    places: dict[str, float]  # shares of attention
    role: str  # the position with at least ROLE_SHARE of the attention, or ""
    nearest: str  # the most similar head of the same kind
    divergence: float  # from that head, in bits: 0 equal, 1 disjoint
    mean_divergence: float  # from all other heads
    mutual_information: float | None = None  # of linked words in bits, for cross-attention
    importance: float | None = None  # change in BLEU without the head
    importance_p: float | None = None  # p-value of that change

    @property
    def name(self) -> str:
        return f"{self.layer}.{self.head}"


@dataclass(frozen=True)
class HeadStatistics:
    texts: int
    heads: list[HeadFigures]
    divergences: dict[Kind, list[list[float]]]  # of every two heads, in the order of `heads`
    bleu: float | None = None  # of the model with all heads

    def with_importance(
        self, bleu: float, changes: dict[HeadIndex, tuple[float, float | None]]
    ) -> "HeadStatistics":
        """Add the change in BLEU without each head, and its p-value."""
        heads = []
        for one in self.heads:
            change, p = changes[one.kind, one.layer - 1, one.head - 1]
            heads.append(replace(one, importance=change, importance_p=p))
        return replace(self, heads=heads, bleu=bleu)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Sums:
    """Sums over the rows of one kind of attention, and their numbers."""

    values: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)
    divergence: Tensor | None = None
    rows: int = 0

    def add(self, weights: Tensor, kind: Kind) -> None:
        for name, rows in measures(weights.double(), kind).items():
            valid = ~rows.isnan()
            self.values[name] = self.values.get(name, 0) + rows.nan_to_num().sum(-1)
            self.counts[name] = self.counts.get(name, 0) + valid.sum(-1)
        total = pairwise_divergence(weights.double().flatten(0, 1)).sum(-1)
        self.divergence = total if self.divergence is None else self.divergence + total
        self.rows += weights.size(-2)

    def mean(self, name: str) -> Tensor:
        """Return the mean; 0 where no text is long enough for the position."""
        return self.values[name] / self.counts[name].clamp(min=1)


def head_statistics(
    model: Pipeline,
    texts: Sequence[Text],
    *,
    truncate: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> HeadStatistics:
    """Return the statistics of `model`, the first of an ensemble; a tick for each text."""
    sums: dict[Kind, _Sums] = {}
    for text in texts:
        for kind, weights in _attention(model, text, truncate).items():
            sums.setdefault(kind, _Sums()).add(weights, kind)
        tick()
    bits = _mutual_information(model, texts) if isinstance(model, Translator) else {}
    heads = [one for kind, found in sums.items() for one in _figures(kind, found, bits)]
    divergences = {
        kind: (found.divergence / found.rows).tolist()
        for kind, found in sums.items()
        if found.divergence is not None
    }
    return HeadStatistics(len(texts), heads, divergences)


def _attention(model: Pipeline, text: Text, truncate: bool) -> Attention:
    """Record attention with the target forced; a language model is forced to output the text."""
    longest = model.settings.data.max_length if truncate else None
    (read,) = model.tokenizer.encode([text[0]])
    read = read[:longest]
    if isinstance(model, Classifier):
        return maps.read(model.model, torch.tensor([[model.tokenizer.bos_id, *read]]))[1]
    if isinstance(model, Embedder):
        row = model.tokenizer.source(read)
        return maps.read(model.model, torch.tensor([row]))[1]
    if not isinstance(model, Translator):
        return maps.decode([model.model], None, model.begun(read))[1]
    (target,) = model.target_tokenizer.encode([text[1]])
    inputs = [model.target_tokenizer.bos_id, *target[:longest]]
    return maps.decode([model.model], model.source_tokenizer.source(read), inputs)[1]


def _figures(kind: Kind, found: _Sums, bits: dict[tuple[int, int], float]) -> list[HeadFigures]:
    assert found.divergence is not None
    layers, heads = found.mean("entropy").shape
    names = [f"{layer + 1}.{head + 1}" for layer in range(layers) for head in range(heads)]
    divergence = found.divergence / found.rows
    others = divergence.clone().fill_diagonal_(torch.inf)  # a head is not compared with itself
    figures = []
    for n, name in enumerate(names):
        layer, head = divmod(n, heads)
        places = {place: float(found.mean(place)[layer, head]) for place in PLACES[kind]}
        favourite = max(places, key=places.__getitem__)
        single = len(names) == 1
        figures.append(
            HeadFigures(
                kind=kind,
                layer=layer + 1,
                head=head + 1,
                entropy=float(found.mean("entropy")[layer, head]),
                distance=float(found.mean("distance")[layer, head]),
                places=places,
                role=favourite if places[favourite] >= ROLE_SHARE else "",
                nearest=name if single else names[int(others[n].argmin())],
                divergence=0.0 if single else float(others[n].min()),
                mean_divergence=0.0 if single else float(divergence[n].sum() / (len(names) - 1)),
                mutual_information=bits.get((layer, head)) if kind == "cross" else None,
            )
        )
    return figures


def _mutual_information(model: Translator, texts: Sequence[Text]) -> dict[tuple[int, int], float]:
    """Return the bits of each head of cross-attention, the better of both steps of a word.

    Texts longer than the model's limit are left out.
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
                counts = linked.setdefault(head, Counter())
                for source, target in head.links(head.of(words)):
                    counts[
                        pair.source_words[source].lower(), pair.target_words[target].lower()
                    ] += 1
    bits = {head: mutual_information(counts) for head, counts in linked.items() if counts}
    best: dict[tuple[int, int], float] = {}
    for head, value in bits.items():
        assert head.layer is not None and head.head is not None
        index = head.layer, head.head
        best[index] = max(value, best.get(index, 0.0))
    return best


def _fits(model: Translator, source: str, target: str) -> bool:
    (source_ids,), (target_ids,) = (
        model.source_tokenizer.encode([source]),
        model.target_tokenizer.encode([target]),
    )
    if not (split_words(source) and split_words(target)):
        return False
    return max(len(source_ids), len(target_ids)) <= model.max_length
