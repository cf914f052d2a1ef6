"""The queue: batches change no answer, take turns, and drop requests whose client has left."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from glassformer.errors import InputError
from glassformer.serve.batches import Batcher
from glassformer.serve.refusals import RequestError


class Doubling:
    """Doubles numbers, slowly at first: until `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: list[int]) -> Sequence[int]:
        assert self.go.wait(10)
        self.batches.append(items)
        if -1 in items:
            raise InputError("A number is negative.", "It is.", "Use another.")
        return [2 * item for item in items]


async def gather(batcher: Batcher, compute: Any, *jobs: list[int], key: str = "k") -> list[Any]:
    tasks = [asyncio.create_task(batcher.run(key, compute, job)) for job in jobs]
    await asyncio.sleep(0.02)
    compute.go.set()
    try:
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    finally:
        await batcher.close()


def test_jobs_that_wait_together_share_a_batch() -> None:
    compute = Doubling()
    found = asyncio.run(gather(Batcher(100), compute, [1], [2, 3], [4]))
    assert found == [[2], [4, 6], [8]]
    assert compute.batches == [[1, 2, 3, 4]] or compute.batches == [[1], [2, 3, 4]]


def test_a_large_job_takes_turns_with_small_ones() -> None:
    compute = Doubling()
    found = asyncio.run(gather(Batcher(100, most=4), compute, list(range(20)), [50], [51]))
    assert found[0] == [2 * i for i in range(20)] and found[1:] == [[100], [102]]
    small = next(i for i, batch in enumerate(compute.batches) if 50 in batch)
    assert small <= 1 and max(map(len, compute.batches)) == 4


def test_a_job_at_fault_fails_alone() -> None:
    compute = Doubling()
    found = asyncio.run(gather(Batcher(100), compute, [1], [-1], [3]))
    assert found[0] == [2] and found[2] == [6]
    assert isinstance(found[1], InputError)


def test_a_full_queue_refuses_more() -> None:
    async def overfill() -> None:
        batcher, compute = Batcher(3), Doubling()
        first = asyncio.create_task(batcher.run("k", compute, [1, 2, 3]))
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="queue is full: 3 texts are waiting") as caught:
            await batcher.run("k", compute, [4])
        assert caught.value.status == 429 and caught.value.headers == {"Retry-After": "2"}
        compute.go.set()
        assert await first == [2, 4, 6]
        await batcher.close()

    asyncio.run(overfill())


def test_requests_of_clients_that_left_are_not_computed() -> None:
    async def leave() -> None:
        batcher, compute = Batcher(100, most=2), Doubling()
        first = asyncio.create_task(batcher.run("k", compute, [1, 2, 3, 4, 5, 6]))
        other = asyncio.create_task(batcher.run("other", compute, [7]))
        await asyncio.sleep(0.02)
        first.cancel()
        await asyncio.sleep(0)
        assert batcher.waiting == 1
        compute.go.set()
        assert await other == [14]
        assert compute.batches == [[1, 2], [7]]
        await batcher.close()

    asyncio.run(leave())
