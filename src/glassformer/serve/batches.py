"""The queue of texts: those of requests that arrive together are computed as one batch.

The engine gives a text the same answer in any batch, so that sharing one changes no answer. A
request with many texts takes turns with the others. Texts whose client has left are dropped.
Everything but the computing runs on the event loop, and needs no locks.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.serve.refusals import busy

MAX_BATCH = 64  # texts: more are hardly faster, and a request waits for the batch before its own

Compute = Callable[[list[Any]], Sequence[Any]]  # texts, or texts with what belongs to them


@dataclass(eq=False)
class Job:
    """The texts of one request that are computed in one way."""

    key: Hashable  # jobs of one key may share a batch
    compute: Compute
    items: Sequence[Any]
    done: asyncio.Future[list[Any]]
    answers: list[Any] = field(default_factory=list)

    @property
    def remaining(self) -> int:
        return len(self.items) - len(self.answers)

    def take(self, count: int) -> list[Any]:
        return list(self.items[len(self.answers) : len(self.answers) + count])


class Batcher:
    """Computes the jobs of all requests, batch by batch, on a thread of its own."""

    def __init__(self, limit: int, most: int = MAX_BATCH) -> None:
        self.limit, self.most = limit, most
        self.jobs: deque[Job] = deque()
        self.batches = 0
        self.sizes: list[int] = []  # of the latest batches, for tests and /health
        self._arrived = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "batches")
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return sum(job.remaining for job in self.jobs if not job.done.done())

    async def run(self, key: Hashable, compute: Compute, items: Sequence[Any]) -> list[Any]:
        """Return the answers to all items; refuse them where the queue is full."""
        if not items:
            return []
        if self.waiting + len(items) > self.limit:
            raise busy("texts", self.limit)
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="batches")
        job = Job(key, compute, items, asyncio.get_running_loop().create_future())
        self.jobs.append(job)
        self._arrived.set()
        return await job.done  # cancelled when the client leaves

    async def close(self) -> None:
        """Stop; a batch that is being computed comes to its end."""
        if self._task is not None:
            self._task.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _work(self) -> None:
        while True:
            self.jobs = deque(job for job in self.jobs if not job.done.done())
            if not self.jobs:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            shares = self._shares()
            answers, error = await self._compute([*shares], [*shares.values()])
            if isinstance(error, GlassformerError) and len(shares) > 1:
                for job, items in shares.items():  # one of them is at fault
                    self._deliver([job], [items], *await self._compute([job], [items]))
            else:
                self._deliver([*shares], [*shares.values()], answers, error)
            self.jobs.rotate(-1)  # another kind of job begins the next batch

    def _shares(self) -> dict[Job, list[Any]]:
        """Return the items of the next batch by job: equal numbers, then whatever has room."""
        alike = [job for job in self.jobs if job.key == self.jobs[0].key]
        each = max(self.most // len(alike), 1)
        counts = {job: min(job.remaining, each) for job in alike[: self.most]}
        room = self.most - sum(counts.values())
        for job in counts:
            more = min(job.remaining - counts[job], room)
            counts[job] += more
            room -= more
        return {job: job.take(count) for job, count in counts.items()}

    async def _compute(
        self, jobs: list[Job], shares: list[list[Any]]
    ) -> tuple[Sequence[Any], BaseException | None]:
        items = [item for share in shares for item in share]
        loop = asyncio.get_running_loop()
        computed = loop.run_in_executor(self._pool, jobs[0].compute, items)
        await asyncio.wait([computed])
        self.batches += 1
        self.sizes = [*self.sizes[-99:], len(items)]
        error = computed.exception()
        return ([] if error else computed.result()), error

    def _deliver(
        self,
        jobs: list[Job],
        shares: list[list[Any]],
        answers: Sequence[Any],
        error: BaseException | None,
    ) -> None:
        start = 0
        for job, share in zip(jobs, shares, strict=True):
            if job.done.done():  # its client left
                pass
            elif error is not None:
                job.done.set_exception(error)
            else:
                job.answers += answers[start : start + len(share)]
                if not job.remaining:
                    job.done.set_result(job.answers)
            start += len(share)
