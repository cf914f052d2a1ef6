"""Ids in, ids out: one door to greedy search, beam search and sampling."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from glassformer.decode.beam import Beam
from glassformer.decode.constraints import Constraints
from glassformer.decode.observer import Observer
from glassformer.decode.one_by_one import OneByOne, Sampler, likeliest
from glassformer.decode.options import Hypothesis, SearchOptions
from glassformer.decode.replay import Speaker, recordings
from glassformer.decode.session import Session, output_limits
from glassformer.decode.side_by_side import side_by_side
from glassformer.errors import InputError

__all__ = ["Hypothesis", "SearchOptions", "force_decode", "search", "stream"]

Prefixes = Sequence[Sequence[int]]


def search(
    models: Speaker | Sequence[Speaker],
    source: Int[Tensor, "B S"] | None,
    bos: int,
    eos: int,
    options: SearchOptions,
    prefixes: Prefixes | None = None,
    numbers: Sequence[int] | None = None,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """The answers to each source, the best first; of a language model, to each prefix.

    Answers begin with their prefix. Several models are an ensemble. `numbers` name the sentences
    where sampling must not depend on how they were batched. An `observer` is told of every step.
    """
    models = models if isinstance(models, Sequence) else [models]
    batch = len(source) if source is not None else len(prefixes or [()])
    begun, names = prefixes or [()] * batch, numbers or range(batch)

    @torch.inference_mode()
    def answer(part: slice) -> list[list[Hypothesis]]:
        of_part = None if source is None else source[part]
        start = _Start(models, of_part, bos, eos, options, begun[part], observer)
        return start.search(names[part])

    replays = [replay for model in models if (replay := recordings(model))]
    if observer is not None or len(replays) < len(models):
        return answer(slice(None))  # somebody looks on, or may: there is one batch to see
    weights = sum(replay.n_weights for replay in replays)
    return side_by_side(answer, batch, options.width, weights)


@torch.inference_mode()
def stream(
    models: Speaker | Sequence[Speaker],
    source: Int[Tensor, "1 S"] | None,
    bos: int,
    eos: int,
    options: SearchOptions,
    prefix: Sequence[int] = (),
    number: int = 0,
) -> Iterator[int]:
    """The tokens of one answer as they are made, greedily or drawn; without the end mark."""
    if not (options.sample or options.beam_size == 1) or options.n_best > 1:
        raise InputError(
            f"{options.n_best} of a beam of {options.beam_size} cannot be streamed.",
            "Which answer comes first is known only when all have ended.",
            "Use beam_size=1 or sample=True, and n_best=1.",
        )
    models = models if isinstance(models, Sequence) else [models]
    start = _Start(models, source, bos, eos, options, [prefix])
    given = len(prefix) - start.said.size(1)  # of the prefix, said step by step
    for step, tokens in enumerate(start.one_by_one([number]).steps(start.logits)):
        if step >= given and (token := int(tokens[0, 0])) != eos:
            yield token


class _Start:
    """A batch whose sources and common prefix have been read."""

    def __init__(
        self,
        models: Sequence[Speaker],
        source: Tensor | None,
        bos: int,
        eos: int,
        options: SearchOptions,
        prefixes: Prefixes,
        observer: Observer | None = None,
    ) -> None:
        pad_id = models[0].pad_id
        self.options, self.observer = options, observer
        self.limits = _limits(source, prefixes, pad_id, options, models)
        forced = _padded(prefixes, -1)
        self.rules = Constraints(options, eos, torch.tensor([pad_id, bos]), forced)
        common = min(min(map(len, prefixes)), int(self.limits.min()) - 1)
        longest = int(self.limits.max())
        self.session = Session(models, source, len(prefixes), longest, options.width)
        self.said = forced[:, :common]
        logits = self.session.prefill(F.pad(self.said, (1, 0), value=bos))
        # In double: over many tokens the sum, too, must be right to 1e-5.
        self.log_probs = _log_probs(logits[:, :-1], self.said).double().sum(1)
        self.logits = logits[:, -1:]
        if observer is not None:
            observer.began(self.said, logits[:, :-1].log_softmax(-1))

    def search(self, names: Sequence[int]) -> list[list[Hypothesis]]:
        """To the end; `names` are the numbers of the sentences."""
        if not self.options.sample and self.options.beam_size > 1:
            return Beam(*self._walk()).search(self.logits)
        walk = self.one_by_one(names)
        for _ in walk.steps(self.logits):
            pass
        return [sorted(found, key=lambda h: -h.score) for found in walk.found]

    def one_by_one(self, names: Sequence[int]) -> OneByOne:
        choose = Sampler(self.options, names) if self.options.sample else likeliest
        return OneByOne(*self._walk(), choose=choose)

    def _walk(self) -> tuple[Any, ...]:
        start = self.session, self.rules, self.options, self.limits, self.said, self.log_probs
        return *start, self.observer


def _limits(
    source: Tensor | None,
    prefixes: Prefixes,
    pad_id: int,
    options: SearchOptions,
    models: Sequence[Speaker],
) -> Int[Tensor, "B"]:
    """The greatest length of each answer, its prefix counted."""
    given = torch.tensor([len(prefix) for prefix in prefixes])
    if options.max_length is not None:
        limits = torch.full((len(given),), options.max_length)
    else:
        own = given + 50 if source is None else output_limits(source, pad_id)
        limits = torch.maximum(own, given.clamp(min=options.min_length) + 1)
    tables = [model.decoder.positions.longest for model in models]
    for longest in (table for table in tables if table is not None):
        if options.min_length > longest:
            raise InputError(
                f"Answers of at least {options.min_length} tokens are asked for.",
                f"The model has learned {longest} positions.",
                "Ask for less with min_length.",
            )
        limits = limits.clamp(max=longest)
    for length, limit in zip(given.tolist(), limits.tolist(), strict=True):
        if length > limit:
            asked = limit == options.max_length  # and not what the model has learned
            raise InputError(
                f"A prefix of {length} tokens is given.",
                f"It is part of the answer, which may have {limit}.",
                f"Shorten it{', or allow more with max_length' if asked else ''}.",
            )
    return limits


def _padded(rows: Prefixes, filler: int) -> Int[Tensor, "B P"]:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows]).long()


def _log_probs(logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    chosen = logits.gather(-1, ids[..., None]).squeeze(-1)
    return chosen - logits.logsumexp(-1)


@torch.inference_mode()
def force_decode(
    models: Speaker | Sequence[Speaker],
    source: Int[Tensor, "B S"] | None,
    target: Int[Tensor, "B T"],
    bos: int,
) -> Float[Tensor, "B T"]:
    """The log-probability of each token of `target` after those before it, all read at once."""
    models = models if isinstance(models, Sequence) else [models]
    session = Session(models, source, len(target), target.size(1))
    said = F.pad(target[:, :-1], (1, 0), value=bos)
    return _log_probs(session.prefill(said), target)
