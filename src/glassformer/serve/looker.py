"""The queue of looks inside models: one at a time, as they change the model meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from glassformer.extras import require_torch
from glassformer.serve.limits import Limits
from glassformer.serve.refusals import busy

if TYPE_CHECKING:
    from glassformer.serve.tracing import Tracer

T = TypeVar("T")


class Looker:
    """Runs functions of the tracer on a thread. A look whose client has left is not begun."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.waiting = limits, 0
        self._pool = ThreadPoolExecutor(1, "looks")
        self._tracer: Tracer | None = None

    async def run(self, look: "Callable[[Tracer], T]") -> T:
        require_torch("A look inside a model")
        if self.waiting >= self.limits.waiting:
            raise busy("looks inside models", self.limits.waiting)
        self.waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, lambda: look(self._made()))
        finally:
            self.waiting -= 1

    def _made(self) -> "Tracer":
        """Return the tracer; it imports torch."""
        if self._tracer is None:
            from glassformer.serve.tracing import Tracer

            self._tracer = Tracer(self.limits.trace_weights)
        return self._tracer

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
