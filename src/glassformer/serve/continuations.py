"""Continuations of a prompt, piece by piece: what OpenAI's endpoints answer with."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from glassformer.decode.options import MAX_LENGTH, SearchOptions
from glassformer.pipeline import Generator
from glassformer.pipeline.batches import pieces_of
from glassformer.serve.limits import Limits
from glassformer.serve.refusals import RequestError, busy

Reason = Literal["stop", "length"]


@dataclass(frozen=True)
class Prompt:
    """A prompt that was checked, and how it is continued."""

    ids: list[int]  # as the model reads it, the begin mark included
    options: SearchOptions


@dataclass(frozen=True)
class NewTokens:
    """How many tokens a request asks for, or by default as many as have room."""

    asked: int | None
    default: int

    def within(self, room: int) -> int:
        return max(1, min(self.default, room)) if self.asked is None else self.asked


def prompts(
    generator: Generator, rows: Sequence[list[int]], limit: NewTokens, sampling: dict[str, Any]
) -> list[Prompt]:
    """Return the prompts; refuse those that leave no place for a continuation."""
    most = min(MAX_LENGTH, generator.decoder.max_target or MAX_LENGTH)
    made = []
    for ids in rows:
        read = len(ids) - 1  # the first is not predicted, and takes no place
        new_tokens = limit.within(most - read)
        if read + new_tokens > most:
            raise RequestError(
                422,
                f"The prompt has {len(ids):,} tokens, and {new_tokens:,} more are asked for.",
                f"Together the model has places for {most:,}.",
                "Shorten the prompt, or ask for less with max_tokens.",
            )
        options = SearchOptions(beam_size=1, max_length=read + new_tokens, **sampling)
        made.append(Prompt(ids, options))
    return made


class Continuation:
    """One continuation: its pieces, then why it ended and how many tokens it took."""

    def __init__(
        self, generator: Generator, prompt: Prompt, number: int, stops: Sequence[str]
    ) -> None:
        self.generator, self.prompt, self.number = generator, prompt, number
        self.stops = [stop for stop in stops if stop]
        self.n_tokens = 0
        self.reason: Reason = "stop"

    def pieces(self) -> Iterator[str]:
        """Yield the text up to the first stop sequence."""
        held = ""  # may be the beginning of a stop sequence
        tokenizer, read = self.generator.tokenizer, self.prompt.ids[1:]
        for piece in pieces_of(tokenizer, read, self._counted()):
            held += piece
            places = [place for stop in self.stops if (place := held.find(stop)) >= 0]
            if places:
                self.reason = "stop"
                yield held[: min(places)]
                return
            keep = _partial(held, self.stops)
            if len(held) > keep:
                yield held[: len(held) - keep]
                held = held[len(held) - keep :]
        if held:
            yield held

    def _counted(self) -> Iterator[int]:
        ids, options = self.prompt.ids, self.prompt.options
        for token in self.generator.tokens(ids, options, self.number):
            self.n_tokens += 1
            if len(ids) - 1 + self.n_tokens == options.max_length:
                self.reason = "length"
            yield token


def _partial(text: str, stops: Sequence[str]) -> int:
    """Return how many characters at the end of `text` may begin a stop sequence."""
    longest = max(map(len, stops), default=0)
    lengths = range(min(longest - 1, len(text)), 0, -1)
    return next((n for n in lengths if any(stop.startswith(text[-n:]) for stop in stops)), 0)


class Writer:
    """Runs iterators on a few threads, and lets the event loop wait for each piece."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting = 0
        self._pool = ThreadPoolExecutor(limits.streams, "streams")
        self._turns = asyncio.Semaphore(limits.streams)

    def check(self, count: int) -> None:
        """Refuse `count` more continuations where too many wait already."""
        if self.waiting and self.waiting + count > self.limits.waiting:
            raise busy("continuations", self.waiting)

    async def pieces(self, found: Iterator[str]) -> AsyncIterator[str]:
        """Yield what `found` yields. When the client leaves, the current step is the last."""
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        try:
            loop = asyncio.get_running_loop()
            while True:
                step = loop.run_in_executor(self._pool, next, found, None)
                piece = await asyncio.shield(step)
                if piece is None:
                    return
                yield piece
        finally:
            self._turns.release()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
