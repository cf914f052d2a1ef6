"""Reasons for a token of an output, alone or against another token.

    reasons = why(model, source, read, step=3, token=written, against=other)

Gradient × input and leaving words out, of one step. Without `against` they explain the log-odds of
the token; with it log p(token) - log p(against): "contrastive" (Yin and Neubig, 2022).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.inspect.saliency import (
    BATCH_CELLS,
    differentiable,
    features_of,
    gradient_times_input,
    log_odds,
)
from glassformer.inspect.words import Side, Word
from glassformer.model.transformer import LanguageModel, Transformer

Model = Transformer | LanguageModel
Answer = Callable[[Tensor], Tensor]  # logits (R, V) to the number that is explained (R,)


@dataclass(frozen=True)
class Reasons:
    """Influences on one step; a positive one favours the token."""

    value: float  # the log-odds, or the difference of the log-probabilities
    gradient: dict[str, list[float]]  # "source" and "target": of each token
    left_out: dict[str, list[float]]  # of each word: the fall of `value` without it
    words: dict[str, list[str]]  # the words that were left out


def why(
    model: Model, source: Side | None, read: Side, step: int, token: int, against: int | None = None
) -> Reasons:
    """Explain `token` at a step. `read` are the decoder's input tokens, at least up to it."""
    vocabulary = model.output.weight.size(0)
    for one in (token, *([] if against is None else [against])):
        if not 0 <= one < vocabulary:
            raise InputError(
                f"The token {one} is outside the vocabulary.",
                f"Ids run from 0 to {vocabulary - 1}.",
                "Give the id of a token of the model.",
            )
    if not 0 <= step < len(read.ids):
        raise InputError(
            f"Step {step} is asked for.",
            f"The output has {len(read.ids)} steps, from 0.",
            "Choose one of them.",
        )
    answer = partial(_answer, token=token, against=against)
    sides = {} if source is None else {"source": list(source.ids)}
    sides["target"] = list(read.ids[: step + 1])
    words = {} if source is None else {"source": list(source.words)}
    words["target"] = [  # the first token stays
        replace(word, end=min(word.end, step + 1)) for word in read.words if 0 < word.start <= step
    ]
    value, left_out = _left_out(model, sides, words, answer)
    texts = {name: [word.text for word in some] for name, some in words.items()}
    return Reasons(value, _gradient(model, sides, answer), left_out, texts)


def _answer(logits: Tensor, token: int, against: int | None) -> Tensor:
    if against is None:
        return log_odds(logits, torch.full((len(logits),), token, device=logits.device))
    return logits[:, token] - logits[:, against]  # the softmax has the same sum for both


def _gradient(model: Model, sides: dict[str, list[int]], answer: Answer) -> dict[str, list[float]]:
    twin, leaves = differentiable(model)
    read = [torch.tensor([ids], device=twin.output.weight.device) for ids in sides.values()]
    with torch.enable_grad():
        answers = answer(twin.output(features_of(twin, read)[:, -1]))
    found = gradient_times_input(answers, leaves)
    return {name: rows[0].tolist() for name, rows in zip(sides, found, strict=True)}


@torch.no_grad()
def _left_out(
    model: Model,
    sides: dict[str, list[int]],
    words: dict[str, list[Word]],
    answer: Answer,
) -> tuple[float, dict[str, list[float]]]:
    """Return the number that is explained, and its fall without each word of each side."""
    rows = [sides]
    rows += [
        {**sides, name: sides[name][: word.start] + sides[name][word.end :]}
        for name, some in words.items()
        for word in some
    ]
    width = sum(map(len, sides.values()))
    size = max(1, BATCH_CELLS // width)
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    values = torch.cat([answer(_last_logits(model, part)) for part in parts]).cpu()
    falls = iter((values[0] - values[1:]).tolist())
    found = {name: [next(falls) for _ in some] for name, some in words.items()}
    return float(values[0]), found


def _last_logits(model: Model, rows: Sequence[dict[str, list[int]]]) -> Tensor:
    """Return the logits after the last token of each row; rows are padded to one length."""
    device, pad = model.output.weight.device, max(model.pad_id, 0)
    read = []
    for name in rows[0]:
        ids = [row[name] for row in rows]
        longest = max(map(len, ids))
        padded = [[*one, *[pad] * (longest - len(one))] for one in ids]
        read.append(torch.tensor(padded, device=device))
    last = torch.tensor([len(row["target"]) - 1 for row in rows], device=device)
    features = features_of(model, read)
    return model.output(features[torch.arange(len(rows), device=device), last])
