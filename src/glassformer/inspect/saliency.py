"""Saliency: gradient × input, and for a classifier also leaving words out.

Attention shows where a model attends, not what its output depends on. The gradient is the change
of the output with a token's embedding, to first order; a token's saliency is the sum of gradient ×
embedding (Denil et al., 2014). Leaving a word out is a direct check. Both explain the log-odds,
log p / (1 - p), of the output: unlike probabilities they do not saturate where a model is sure.
"""

from collections.abc import Sequence
from copy import copy
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.inspect.words import Side
from glassformer.model.replace import replace
from glassformer.model.transformer import LanguageModel, Transformer
from glassformer.pipeline import Classifier, Generator, Translator

M = TypeVar("M", bound=nn.Module)
BATCH_CELLS = 8_192  # tokens of one pass, padding included: a limit on memory


def log_odds(logits: Float[Tensor, "R C"], chosen: Int[Tensor, "R"]) -> Float[Tensor, "R"]:
    """log p / (1 - p) of the chosen class of each row: its logit minus logsumexp of the others."""
    own = logits.gather(-1, chosen[:, None])
    others = logits.scatter(-1, chosen[:, None], -torch.inf).logsumexp(-1)
    return own.squeeze(-1) - others


def differentiable(model: M) -> tuple[M, list[Tensor]]:
    """Return the model with embeddings that are leaves of the gradient, and a list of them.

    Each forward pass appends the vectors of its tokens to the list, source before target. The
    weights are shared with the model.
    """
    leaves: list[Tensor] = []
    twin = _shell(model, {})

    def convert(module: nn.Module, name: str) -> nn.Module | None:
        return _Leaf(module, leaves) if name.rpartition(".")[2] == "embedding" else None

    replace(twin, convert)
    return twin, leaves


def _shell(module: M, made: dict[int, nn.Module]) -> M:
    """Copy the modules but not the parameters; shared modules stay shared."""
    shell = copy(module)
    made[id(module)] = shell
    shell._modules = {
        name: child and (made[id(child)] if id(child) in made else _shell(child, made))
        for name, child in module._modules.items()
    }
    return shell


class _Leaf(nn.Module):
    """An embedding whose output is a leaf of the gradient and is collected."""

    def __init__(self, embedding: nn.Module, leaves: list[Tensor]) -> None:
        super().__init__()
        self.embedding, self.leaves = embedding, leaves

    def forward(self, ids: Tensor) -> Tensor:
        self.leaves.append(self.embedding(ids).detach().requires_grad_())
        return self.leaves[-1]


def gradient_times_input(
    answers: Float[Tensor, "R"], leaves: Sequence[Float[Tensor, "R T D"]]
) -> list[Float[Tensor, "R T"]]:
    """Return gradient × input of each row's answer by each token; rows must be independent."""
    gradients = torch.autograd.grad(answers.sum(), leaves)
    return [(g * x).sum(-1).detach() for g, x in zip(gradients, leaves, strict=True)]


# Saliency of outputs


def output_saliency(
    model: Translator | Generator,
    source: Sequence[int] | None,
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> dict[str, Tensor]:
    """Return the saliency of each output token: "source" (T, S) and "target" (T, T).

    The first model of an ensemble is used. A language model has no "source".
    """
    twin, leaves = differentiable(model.model)
    read = [ids for ids in (source, inputs) if ids is not None]
    device = twin.output.weight.device
    output_ids = torch.tensor(outputs, device=device)
    found: list[list[Tensor]] = []
    all_steps = torch.arange(len(output_ids), device=device)
    for steps in all_steps.split(max(1, BATCH_CELLS // sum(map(len, read)))):
        # Row r is a copy of the sentence whose loss is step r alone: one backward pass for all.
        leaves.clear()
        ids = [torch.tensor(one, device=device).expand(len(steps), -1) for one in read]
        with torch.enable_grad():
            features = features_of(twin, ids)[torch.arange(len(steps), device=device), steps]
            answers = log_odds(twin.output(features), output_ids[steps])
        found.append(gradient_times_input(answers, leaves))
    parts = [torch.cat(rows).cpu() for rows in zip(*found, strict=True)]
    return dict(zip(("source", "target")[-len(read) :], parts, strict=True))


def features_of(model: Transformer | LanguageModel, ids: list[Tensor]) -> Float[Tensor, "R T D"]:
    if isinstance(model, Transformer):
        return model.features(ids[0], ids[1])
    return model.features(ids[0])


# Saliency of labels


def label_saliency(model: Classifier, read: Side) -> dict[str, Tensor]:
    """Return the saliency of each label: "source" (C, S) and "left_out" (C, words)."""
    twin, leaves = differentiable(model.model)
    device = twin.output.weight.device
    labels = torch.arange(len(model.labels), device=device)
    ids = torch.tensor(read.ids, device=device).expand(len(labels), -1)
    with torch.enable_grad():
        answers = log_odds(mixed(model, twin(ids), [read.ids] * len(labels)), labels)
    (by_token,) = gradient_times_input(answers, leaves)
    return {"source": by_token.cpu(), "left_out": left_out(model, read)}


def mixed(
    model: Classifier, logits: Float[Tensor, "R C"], rows: Sequence[Sequence[int]]
) -> Float[Tensor, "R C"]:
    """Mix the encoder's logits with those of the n-grams, as the classifier does.

    A gradient goes through the encoder alone: n-grams are not embedded.
    """
    if model.votes is None:
        return logits
    votes = torch.from_numpy(model.votes.of_rows(rows)).to(logits)
    return torch.lerp(logits, votes, model.settings.model.ngram_share)


@torch.no_grad()
def left_out(model: Classifier, read: Side) -> Float[Tensor, "C words"]:
    """Return how much each label's log-odds fall without each word."""
    ids = list(read.ids)
    texts = [ids, *(ids[: word.start] + ids[word.end :] for word in read.words)]
    module, width = model.model, len(ids)
    rows = [[*text, *[module.pad_id] * (width - len(text))] for text in texts]
    padded = torch.tensor(rows, device=module.output.weight.device)
    batches = padded.split(max(1, BATCH_CELLS // width))
    logits = mixed(model, torch.cat([module(part) for part in batches]).cpu(), texts)
    classes = range(logits.size(1))
    odds = torch.stack([log_odds(logits, torch.full((len(logits),), c)) for c in classes])
    return odds[:, :1] - odds[:, 1:]


def rank_correlation(a: Float[Tensor, "n"], b: Float[Tensor, "n"]) -> float:
    """Return Spearman's rank correlation, from -1 (reversed order) to 1 (same order)."""
    if len(a) < 2:
        return 1.0
    ranks = torch.stack([x.argsort().argsort().double() for x in (a, b)])
    return float(torch.corrcoef(ranks)[0, 1])
