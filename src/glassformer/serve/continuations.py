"""Continuations of a prompt, piece by piece: what OpenAI's endpoints answer with."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.options import MAX_LENGTH, SearchOptions
from glassformer.decode.search import stream
from glassformer.pipeline import Generator
from glassformer.pipeline.batches import encode_prefixes, pieces_of
from glassformer.serve.limits import Limits
from glassformer.serve.refusals import RequestError, busy

Reason = Literal["stop", "length"]


@dataclass(frozen=True)
class Prompt:
    """A prompt that was checked, and how it is continued."""

    ids: list[int]
    options: SearchOptions


def prompts(
    generator: Generator, texts: Sequence[str], new_tokens: int, sampling: dict[str, Any]
) -> list[Prompt]:
    """Return the prompts as ids; refuse those that leave no place for a continuation."""
    rows = encode_prefixes(generator.tokenizer, texts, "prompt")
    most = min(MAX_LENGTH, generator.decoder.max_target or MAX_LENGTH)
    for ids in rows:
        if len(ids) + new_tokens > most:
            raise RequestError(
                422,
                f"The prompt has {len(ids):,} tokens, and {new_tokens:,} more are asked for.",
                f"Together the model has places for {most:,}.",
                "Shorten the prompt, or ask for less with max_tokens.",
            )
    return [
        Prompt(ids, SearchOptions(beam_size=1, max_length=len(ids) + new_tokens, **sampling))
        for ids in rows
    ]


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
        ids, options = self.prompt.ids, self.prompt.options
        decoder, tokenizer = self.generator.decoder, self.generator.tokenizer
        tokens = self._counted(stream(decoder, None, BOS, EOS, options, ids, self.number))
        held = ""  # may be the beginning of a stop sequence
        for piece in pieces_of(tokenizer, ids, tokens):
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

    def _counted(self, tokens: Iterator[int]) -> Iterator[int]:
        most = self.prompt.options.max_length
        for token in tokens:
            self.n_tokens += 1
            if len(self.prompt.ids) + self.n_tokens == most:
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
