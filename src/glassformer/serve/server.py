"""The state of a running server: its models, its queues and its limits."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.serve.batches import Batcher
from glassformer.serve.continuations import Writer
from glassformer.serve.limits import Limits
from glassformer.serve.looker import Looker
from glassformer.serve.models import Models


@dataclass(eq=False)
class Server:
    """Everything that handlers of requests share."""

    models: Models
    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})  # by which it is called
    any_address: bool = False  # it may be called by every numeric address
    origins: tuple[str, ...] = ()  # of other sites whose pages may call it
    runs: Path | None = None  # folder of training runs that the page shows
    findings: Path | None = None  # folder of results of the lab
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self.batcher = Batcher(self.limits.queue)
        self.writer = Writer(self.limits)
        self.looker = Looker(self.limits)

    async def close(self) -> None:
        await self.batcher.close()
        self.writer.close()
        self.looker.close()


STATIC = Path(__file__).parent / "static"
