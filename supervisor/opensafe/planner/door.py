"""What the nodes of a run need beside its state, and what is never in a checkpoint."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from opentelemetry.trace import Tracer

from opensafe.client import Client

from .calls import Calls
from .limits import Limits

T = TypeVar("T")


class StoppedError(Exception):
    """The user asked for the run's end while something was waited for."""


@dataclass(slots=True)
class Stop:
    """The user's wish to end the run. It stays."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""

    async def unless(self, work: Awaitable[T]) -> T:
        """What `work` gives. Raises StoppedError as soon as the stop is asked for; `work` is then cancelled."""
        task = asyncio.ensure_future(work)
        asking = asyncio.create_task(self.asked.wait(), name="planner-stop")
        try:
            await asyncio.wait({task, asking}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise StoppedError
        finally:
            for one in (task, asking):
                one.cancel()
            await asyncio.wait({task, asking})
            if task.done() and not task.cancelled():
                task.exception()  # read, so that one that failed while it was cancelled leaves no warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The runtime context of the graph.

    model: with the tools bound. await_reviews: whether `await_review` waits for the reviewer; else it interrupts.
    template: of sandboxes that take a lost one's place.
    """

    client: Client
    model: Runnable[Sequence[BaseMessage], BaseMessage]
    limits: Limits
    tracer: Tracer
    calls: Calls
    stop: Stop
    await_reviews: bool = True
    template: str = ""
