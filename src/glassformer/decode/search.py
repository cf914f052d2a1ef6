"""Search: greedy, beam and sampling, for translators and language models. Ids in, ids out."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from threading import Event
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.decode import beam as beams
from glassformer.decode.constraints import Constraints
from glassformer.decode.decoder import Decoder, Ids, Scores, Values
from glassformer.decode.ensemble import alone, as_one, parts
from glassformer.decode.observer import Observer, Step
from glassformer.decode.options import Hypothesis, SearchOptions
from glassformer.decode.rows import Rows, top
from glassformer.decode.sample import Sampler
from glassformer.errors import InputError

__all__ = ["Hypothesis", "SearchOptions", "force_decode", "search", "stream", "total"]

NO_PAD = -1  # padding id of a model that has none
Sequences = Sequence[Sequence[int]]
Decoders = Decoder | Sequence[Decoder]
Answers = list[list[Hypothesis]]
T = TypeVar("T")


def search(
    decoders: Decoders,
    sources: Sequences | None,
    bos: int,
    eos: int,
    options: SearchOptions,
    prefixes: Sequences | None = None,
    numbers: Sequence[int] | None = None,
    observer: Observer | None = None,
    *,
    bos_is_mark: bool = True,
) -> Answers:
    """Return the answers to each source, or to each prefix of a language model, best first.

    Answers begin with their prefix. Several decoders are an ensemble. `numbers` identify the
    sentences for sampling: the tokens drawn for a sentence depend on the seed and its number.
    A begin mark never follows; an ordinary token in its place, `bos_is_mark=False`, may.
    """
    decoder = as_one(decoders)
    batch = _checked(decoder, sources, bos, options, prefixes, numbers)
    n_parts = 1 if observer else parts(decoder, len(batch.prefixes), options.width)
    of_part = alone(decoder) if n_parts > 1 else decoder

    def answer(part: slice, stopped: Event) -> Answers:
        task = _Search(of_part, batch.part(part), bos, eos, options, observer, bos_is_mark)
        return task.answers(stopped)

    return _in_parts(answer, batch.costs, n_parts)


def stream(
    decoders: Decoders,
    source: Sequence[int] | None,
    bos: int,
    eos: int,
    options: SearchOptions,
    prefix: Sequence[int] = (),
    number: int = 0,
    *,
    bos_is_mark: bool = True,
) -> Iterator[int]:
    """Yield the tokens of one answer as they are chosen, without prefix and end mark."""
    if options.width > 1:
        raise InputError(
            f"{options.n_best} of a beam of {options.width} cannot be streamed.",
            "Which answer is best is known only when all have ended.",
            "Use beam_size=1 or sample=True, and n_best=1.",
        )
    decoder = as_one(decoders)
    sources = None if source is None else [source]
    batch = _checked(decoder, sources, bos, options, [prefix], [number])
    task = _Search(decoder, batch, bos, eos, options, bos_is_mark=bos_is_mark)
    for token in task.tokens():
        if task.beam.length[0] > len(prefix) and token != eos:
            yield token


def force_decode(
    decoders: Decoders, sources: Sequences | None, targets: Sequences, bos: int
) -> list[NDArray[np.float32]]:
    """Return the log-probability of each token of each target, given the tokens before it."""
    decoder = as_one(decoders)
    _check_sources(decoder, sources, len(targets))
    _check_ids(decoder, "target", targets)
    _check_ids(decoder, "begin mark", [[bos]])
    longest = max(map(len, targets), default=0)
    if decoder.max_target is not None and longest > decoder.max_target:
        raise InputError(
            f"A target of {longest} tokens is given.",
            f"The model has learned {decoder.max_target} positions.",
            "Shorten it, or leave it out.",
        )
    if longest == 0:
        return [np.empty(0, np.float32) for _ in targets]

    n_parts = parts(decoder, len(targets), 1)
    of_part = alone(decoder) if n_parts > 1 else decoder

    def answer(part: slice, stopped: Event) -> list[NDArray[np.float32]]:
        wanted = targets[part]
        length = max(1, max(map(len, wanted)))
        ids = np.full((len(wanted), length), max(decoder.pad_id, 0), np.int64)
        for row, target in zip(ids, wanted, strict=True):
            row[: len(target)] = target
        inputs = np.full_like(ids, bos)
        inputs[:, 1:] = ids[:, :-1]
        given = None if sources is None else sources[part]
        decoding = of_part.start(given, len(wanted), 1, length)
        rows = decoding.prefill(inputs).rows()
        found = np.take_along_axis(rows, ids[..., None], -1)[..., 0]
        return [row[: len(target)] for row, target in zip(found, wanted, strict=True)]

    costs = _costs(sources, targets)
    return _in_parts(answer, costs, n_parts)


def total(log_probs: ArrayLike) -> float:
    """Sum the log-probabilities of tokens as a search does: in float64, first to last."""
    sums = np.cumsum(np.asarray(log_probs, np.float64))  # np.sum would add in another order
    return float(sums[-1]) if len(sums) else 0.0


def output_limits(lengths: ArrayLike) -> Ids:
    """Return the greatest output lengths of sources of these lengths: length + 50 (§6.1).

    By each sentence's own length, so that an answer does not depend on the batch.
    """
    return np.asarray(lengths, np.int64) + 50


class _Search:
    """The search of one batch, or of one part of it."""

    def __init__(
        self,
        decoder: Decoder,
        batch: "_Batch",
        bos: int,
        eos: int,
        options: SearchOptions,
        observer: Observer | None = None,
        bos_is_mark: bool = True,
    ) -> None:
        self.eos, self.options, self.observer = eos, options, observer
        n, width = len(batch.prefixes), options.width
        marks = [decoder.pad_id, bos] if bos_is_mark else [decoder.pad_id]
        banned = [mark for mark in marks if mark not in (NO_PAD, eos)]  # other models share marks
        self.rules = Constraints(options, eos, banned, batch.prefixes, decoder.vocab_size)
        self.sampler = Sampler(options, batch.numbers) if options.sample else None
        self.decoding = decoder.start(batch.sources, n, width, int(batch.limits.max()))
        common = min(min(map(len, batch.prefixes)), int(batch.limits.min()) - 1)
        prefix = self.rules.prefixes[:, :common]
        self.bos, self.run = bos, getattr(self.decoding, "run", None)
        self.scores: Scores | None = None
        log_probs = np.zeros(n)
        if not self._runs_from(0):
            self.scores, log_probs = self._prefill(prefix, bos)
        n_best = options.n_best
        self.beam = beams.start(
            batch.limits, width, n_best, banned, prefix, log_probs, batch.counted(options)
        )
        self.candidates = beams.scratch(n, width)

    def _prefill(self, prefix: Ids, bos: int) -> tuple[Scores, NDArray[np.float64]]:
        """Read the begin mark and the common prefix; return the next scores and its log-prob."""
        batch, length = prefix.shape
        ids = np.full((batch, 1 + length), bos, np.int64)
        ids[:, 1:] = prefix
        scores = self.decoding.prefill(ids)
        if length == 0 and self.observer is None:
            return scores, np.zeros(batch)
        rows = scores.rows()
        if self.observer is not None:
            self.observer.on_prefix(prefix, rows[:, :-1])
        own = np.take_along_axis(rows[:, :-1], prefix[..., None], -1)[..., 0]
        return Rows(rows[:, -1:]), np.array([total(row) for row in own])

    @property
    def live(self) -> Ids:
        return self.beam.live[: self.beam.n_live[0]]

    @property
    def position(self) -> int:
        """Number of tokens of every live hypothesis."""
        return int(self.beam.length[self.beam.live[0]])

    def answers(self, stopped: Event) -> Answers:
        """Search until every sentence is done, or `stopped` is set."""
        while len(self.live) and not stopped.is_set():
            if self.run is not None and self._runs_from(self.position):
                alpha = float(self.options.length_penalty)
                self.run(self.beam, self.bos, self.eos, alpha, self.candidates)
            else:
                self.advance()
        return beams.answers(self.beam, self.eos)

    def tokens(self) -> Iterator[int]:
        """Yield the token of each step of the only hypothesis of the only sentence."""
        while True:
            self.advance()
            if not len(self.live):
                yield int(self.beam.finished_token[0, 0])
                return
            yield int(self.beam.tokens[0, self.position - 1, 0])

    def _runs_from(self, position: int) -> bool:
        """Return whether the decoder can take all further steps without Python in between."""
        plain = self.observer is None and self.sampler is None
        return self.run is not None and plain and self.rules.is_plain(position)

    def _next_scores(self) -> Scores:
        """Return the scores after the prefix, then those after the latest tokens."""
        if self.scores is not None:
            scores, self.scores = self.scores, None
            return scores
        if self.position == 0:
            return self._prefill(self.rules.prefixes[:, :0], self.bos)[0]
        live, latest = self.live, self.position - 1
        tokens, parents = self.beam.tokens[live, latest], self.beam.parents[live, latest]
        return self.decoding.step(tokens.astype(np.int64), parents.astype(np.int64))

    def advance(self) -> None:
        """Extend the hypotheses; sentences that are done leave the batch."""
        before = self.live.copy()
        values, ids = self._continuations(self._next_scores(), before)
        alpha = float(self.options.length_penalty)
        beams.advance(self.beam, values, ids, self.eos, alpha, self.candidates)
        if self.observer is not None:
            self.observer.on_step(Step.of(before, self.candidates))
        if 0 < len(self.live) < len(before):
            self.decoding.keep(np.searchsorted(before, self.live))

    def _continuations(self, scores: Scores, live: Ids) -> tuple[Values, Ids]:
        """Return tokens that may continue each hypothesis: the most likely, or drawn ones."""
        position, k = self.position, self.candidates.tokens.shape[1]
        bans = self.rules.bans(position)
        if bans is not None and self.observer is None and self.sampler is None:
            return scores.top(k, bans)
        rows = scores.rows()
        if self.observer is not None:
            self.observer.on_scores(live, rows)
        history = None
        if self.rules.need_history:
            history = beams.histories(self.beam)[:, : rows.shape[1]]
        self.rules.apply(rows, live, position, history)
        if self.sampler is not None:
            return self.sampler.draw(rows, live, self.rules.forced(live, position) >= 0)
        return top(rows, k)


@dataclass(frozen=True)
class _Batch:
    """Input of a search that was checked."""

    sources: Sequences | None
    prefixes: Sequences
    numbers: Sequence[int]
    limits: Ids  # (B,) greatest length of each answer, its prefix included

    def counted(self, options: SearchOptions) -> Ids:
        """Return the greatest lengths that the length penalty counts."""
        if self.sources is None:
            return self.limits
        return np.array([options.counted_length(len(s)) for s in self.sources], np.int64)

    @property
    def costs(self) -> NDArray[np.int64]:
        return _costs(self.sources, self.prefixes)

    def part(self, rows: slice) -> "_Batch":
        sources = None if self.sources is None else self.sources[rows]
        return _Batch(sources, self.prefixes[rows], self.numbers[rows], self.limits[rows])


def _checked(
    decoder: Decoder,
    sources: Sequences | None,
    bos: int,
    options: SearchOptions,
    prefixes: Sequences | None,
    numbers: Sequence[int] | None,
) -> _Batch:
    """Check the input of a search: compiled code has no bounds checks."""
    size = len(sources) if sources is not None else len(prefixes or [()])
    prefixes = [()] * size if prefixes is None else prefixes
    numbers = range(size) if numbers is None else numbers
    _check_sources(decoder, sources, size)
    for name, given in (("prefixes", prefixes), ("numbers", numbers)):
        if len(given) != size:
            raise InputError(
                f"{len(given)} {name} are given for {size} sentences.",
                "Each sentence has one.",
                f"Pass {size} {name}, or none.",
            )
    _check_ids(decoder, "prefix", prefixes)
    _check_ids(decoder, "begin mark", [[bos]])
    return _Batch(sources, prefixes, numbers, _limits(decoder, sources, prefixes, options))


def _check_sources(decoder: Decoder, sources: Sequences | None, size: int) -> None:
    if (sources is not None) != decoder.reads_source:
        kind, has = ("translator", "no") if decoder.reads_source else ("language model", "")
        raise InputError(
            f"A {kind} was given {has} sources.".replace("  ", " "),
            "A translator reads a source; a language model continues its prefix.",
            "Pass one source per sentence." if decoder.reads_source else "Pass sources=None.",
        )
    if sources is None:
        return
    if len(sources) != size:
        raise InputError(
            f"{len(sources)} sources are given for {size} targets.",
            "Each target has one source.",
            f"Pass {size} sources.",
        )
    empty = [i for i, source in enumerate(sources) if not len(source)]
    if empty:
        raise InputError(
            f"Source {empty[0]} is empty.",
            "Attention needs at least one token to attend to.",
            "Give it its end mark, or leave it out.",
        )


def _check_ids(decoder: Decoder, name: str, rows: Sequences) -> None:
    ids = np.fromiter(chain.from_iterable(rows), np.int64)
    wrong = ids[(ids < 0) | (ids >= decoder.vocab_size)]
    if len(wrong):
        raise InputError(
            f"Token id {wrong[0]} of a {name} is outside the vocabulary.",
            f"The model has ids from 0 to {decoder.vocab_size - 1}.",
            "Use the tokenizer that was trained with this model.",
        )


def _limits(
    decoder: Decoder, sources: Sequences | None, prefixes: Sequences, options: SearchOptions
) -> Ids:
    """Return the greatest length of each answer, its prefix included."""
    given = np.array([len(prefix) for prefix in prefixes], np.int64)
    if options.max_length is not None:
        limits = np.full_like(given, options.max_length)
    else:
        read = given if sources is None else [len(source) for source in sources]
        limits = np.maximum(output_limits(read), np.maximum(given, options.min_length) + 1)
    longest = decoder.max_target
    if longest is not None:
        if options.min_length > longest:
            raise InputError(
                f"Answers of at least {options.min_length} tokens are asked for.",
                f"The model has learned {longest} positions.",
                "Ask for less with min_length.",
            )
        limits = np.minimum(limits, longest)
    for length, limit in zip(given.tolist(), limits.tolist(), strict=True):
        if length > limit:
            asked = limit == options.max_length  # otherwise the model sets the limit
            raise InputError(
                f"A prefix of {length} tokens is given.",
                f"It is part of the answer, which may have {limit}.",
                f"Shorten it{', or allow more with max_length' if asked else ''}.",
            )
    return limits


# Parts of a batch on threads


def _costs(sources: Sequences | None, targets: Sequences) -> Ids:
    """Return the number of tokens of each sentence that are known before decoding."""
    read = [0] * len(targets) if sources is None else [len(source) for source in sources]
    return np.array([1 + n + len(t) for n, t in zip(read, targets, strict=True)], np.int64)


def _in_parts(answer: Callable[[slice, Event], list[T]], costs: Ids, n_parts: int) -> list[T]:
    """Join the answers to contiguous parts of a batch, each computed on its own thread.

    If one part fails or Ctrl-C is pressed, the others stop after their current step.
    """
    stopped = Event()
    found = slices(costs, n_parts)
    if len(found) <= 1:
        return [one for part in found for one in answer(part, stopped)]
    pool = _pool(len(found))
    futures = [pool.submit(answer, part, stopped) for part in found]
    try:
        return [one for future in futures for one in future.result()]
    except BaseException:
        stopped.set()
        wait([future for future in futures if not future.cancel()])
        raise


def slices(costs: Ids, n_parts: int) -> list[slice]:
    """Split a batch into up to `n_parts` parts that cost about the same; none is empty."""
    reached = np.cumsum(costs) - costs / 2  # up to the middle of each sentence
    bounds = np.searchsorted(reached, costs.sum() * np.arange(n_parts + 1) / n_parts).tolist()
    return [slice(begin, end) for begin, end in pairwise(bounds) if begin < end]


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, "search")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)
