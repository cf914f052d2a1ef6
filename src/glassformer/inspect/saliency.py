"""What the answer hangs on: gradient × input, and for a classifier also leaving words out.

Attention says where a model looks, not what its answer depends on. The gradient says how the
answer would change with a token's vector, to first order; a token's saliency is that gradient times
the vector, summed (Denil et al., 2014). Leaving a word out is the plain check of it: what the
answer is without the word. Both explain the log-odds, log p / (1 - p), of what was said: unlike
probabilities these do not flatten out where a model is sure.
"""

from collections.abc import Sequence
from copy import copy
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.inspect.words import Side
from glassformer.model.classifier import TransformerClassifier
from glassformer.model.replace import replace
from glassformer.model.transformer import LanguageModel, Transformer
from glassformer.pipeline import Classifier, Generator, Translator

M = TypeVar("M", bound=nn.Module)
CELLS = 8_192  # tokens that go through the model together


def log_odds(logits: Float[Tensor, "R C"], chosen: Int[Tensor, "R"]) -> Float[Tensor, "R"]:
    """log p / (1 - p) of the chosen one of each row: its logit against all others together."""
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
    """Of each row's answer, which hangs on no other row, by each token of the row."""
    gradients = torch.autograd.grad(answers.sum(), leaves)
    return [(g * x).sum(-1).detach() for g, x in zip(gradients, leaves, strict=True)]


# What was said


def of_answer(
    model: Translator | Generator,
    source: Sequence[int] | None,
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> dict[str, Tensor]:
    """Of each token said, "source" (T, S) and "target" (T, T) by each token read.

    Of an ensemble, the first model. A language model has read no source.
    """
    twin, leaves = differentiable(model.model)
    read = [ids for ids in (source, inputs) if ids is not None]
    said = torch.tensor(outputs)
    found: list[list[Tensor]] = []
    for steps in torch.arange(len(said)).split(max(1, CELLS // sum(map(len, read)))):
        # Row r is the whole sentence once more, asked for step r alone: one way back for all.
        leaves.clear()
        ids = [torch.tensor(one).expand(len(steps), -1) for one in read]
        with torch.enable_grad():
            asked = _features(twin, ids)[torch.arange(len(steps)), steps]
            answers = log_odds(twin.output(asked), said[steps])
        found.append(gradient_times_input(answers, leaves))
    parts = [torch.cat(rows) for rows in zip(*found, strict=True)]
    return dict(zip(("source", "target")[-len(read) :], parts, strict=True))


def _features(model: Transformer | LanguageModel, ids: list[Tensor]) -> Float[Tensor, "R T D"]:
    if isinstance(model, Transformer):
        return model.features(ids[0], ids[1])
    return model.features(ids[0])


# What was decided


def of_labels(model: Classifier, read: Side) -> dict[str, Tensor]:
    """Of each label, "source" (C, S) by each token and "left_out" (C, words) by each word."""
    twin, leaves = differentiable(model.model)
    labels = torch.arange(len(model.labels))
    ids = torch.tensor(read.ids).expand(len(labels), -1)
    with torch.enable_grad():
        answers = log_odds(twin(ids), labels)
    (by_token,) = gradient_times_input(answers, leaves)
    return {"source": by_token, "left_out": left_out(model.model, read)}


@torch.no_grad()
def left_out(model: TransformerClassifier, read: Side) -> Float[Tensor, "C words"]:
    """By how much each label's log-odds fall when a word is not there."""
    ids = list(read.ids)
    texts = [ids, *(ids[: word.start] + ids[word.end :] for word in read.words)]
    width = len(ids)
    padded = torch.tensor([[*text, *[model.pad_id] * (width - len(text))] for text in texts])
    logits = torch.cat([model(rows) for rows in padded.split(max(1, CELLS // width))])
    classes = range(logits.size(1))
    odds = torch.stack([log_odds(logits, torch.full((len(logits),), c)) for c in classes])
    return odds[:, :1] - odds[:, 1:]


def rank_correlation(a: Float[Tensor, "n"], b: Float[Tensor, "n"]) -> float:
    """Spearman's, from -1 (the order is turned round) to 1 (it is the same)."""
    if len(a) < 2:
        return 1.0
    ranks = torch.stack([x.argsort().argsort().double() for x in (a, b)])
    return float(torch.corrcoef(ranks)[0, 1])
