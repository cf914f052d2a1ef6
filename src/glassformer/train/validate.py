"""Scores of the weights on the validation examples."""

from collections import Counter
from collections.abc import Callable, Mapping
from math import exp
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.checkpoint import set_weights
from glassformer.config import ModelSettings
from glassformer.data.batch import IGNORE, Batch, Examples
from glassformer.data.batching import TokenBatches
from glassformer.model.attention import record_attention
from glassformer.model.build import build
from glassformer.ngrams import NgramVotes
from glassformer.train.distributed import CPU
from glassformer.train.loss import smoothed_loss

Evaluate = Callable[[nn.Module], dict[str, float]]


@torch.no_grad()
def validate(
    settings: ModelSettings,
    weights: dict[str, Tensor],
    examples: Examples | Mapping[str, Examples],
    batch_tokens: int,
    evaluate: Evaluate | None,
    entropy: bool = False,
    device: torch.device = CPU,
    votes: NgramVotes | None = None,
) -> dict[str, float]:
    """Return loss without smoothing, perplexity, teacher-forced accuracy, and `evaluate`'s scores.

    Of several sets of examples the scores are the means, and each one's are beside them: `loss`
    and `loss/news`.
    """
    model: Any = build(settings).to(device).eval()
    set_weights(model, weights)
    sets = {"": examples} if isinstance(examples, Examples) else examples
    by_set = {name: score(model, one, batch_tokens, votes) for name, one in sets.items()}
    first = next(iter(by_set.values()))
    scores = {metric: fmean(one[metric] for one in by_set.values()) for metric in first}
    if len(sets) > 1:
        scores |= {f"{m}/{name}": v for name, one in by_set.items() for m, v in one.items()}
    scores["perplexity"] = exp(min(scores["loss"], 700.0))
    if entropy:
        first_set = next(iter(sets.values()))
        batches = TokenBatches(first_set.lengths, batch_tokens).epoch(0, shuffle=False)
        batch = first_set.batch(batches[len(batches) // 2]).to(device)
        scores |= attention_entropy(model, batch.inputs)
    return scores | (evaluate(model) if evaluate is not None else {})


def score(
    model: Any, examples: Examples, batch_tokens: int, votes: NgramVotes | None = None
) -> dict[str, float]:
    """Return the loss per label, and the accuracy in per cent."""
    batches = TokenBatches(examples.lengths, batch_tokens).epoch(0, shuffle=False)
    loss, labels = 0.0, 0
    right: Counter[str] = Counter()
    for indices in batches:
        batch = examples.batch(indices).to(model.output.weight.device)
        total, answers = answer(model, batch, votes)
        asked = batch.labels[batch.labels != IGNORE]
        right.update({name: int((best == asked).sum()) for name, best in answers.items()})
        loss, labels = loss + total, labels + asked.numel()
    return {"loss": loss / labels, **{name: 100 * n / labels for name, n in right.items()}}


def answer(
    model: Any, batch: Batch, votes: NgramVotes | None = None
) -> tuple[float, dict[str, Int[Tensor, "N"]]]:
    """The summed loss of what a batch asks, and the likeliest answers; of an encoder and n-grams
    that differ, also the loss of each."""
    features = model.features(*batch.inputs)
    if votes is not None:
        own, (ids,) = model.output(features), batch.inputs
        rows = [row[row != model.pad_id] for row in ids.cpu().numpy()]
        ngrams = torch.from_numpy(votes.of_rows(rows)).to(own)
        logits = torch.lerp(own, ngrams, votes.settings.ngram_share)
        opinions = {"accuracy": logits, "encoder_accuracy": own, "ngrams_accuracy": ngrams}
        loss = F.cross_entropy(logits, batch.labels, reduction="sum")
        return float(loss), {name: opinion.argmax(-1) for name, opinion in opinions.items()}
    total, _ = smoothed_loss(features, model.output, batch.labels)
    best = model.output(features[batch.labels != IGNORE]).argmax(-1)
    return float(total), {"accuracy": best}


def attention_entropy(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, float]:
    """Return the attention entropy of each head in nats per query, averaged over a batch."""
    with record_attention(model) as maps:
        model(*inputs)
    entropies: dict[str, float] = {}
    for name, (weights,) in maps.items():
        by_head = torch.special.entr(weights).sum(-1).mean((0, 2))
        entropies |= {f"entropy/{name}/{head}": float(e) for head, e in enumerate(by_head)}
    return entropies
