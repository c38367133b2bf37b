"""Waiting for the next of several things to expire."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from opensafe.model.ids import now_us


class Expiring(Protocol):
    """What has an end: microseconds since the epoch."""

    @property
    def expires_us(self) -> int:
        """When."""


_Row = TypeVar("_Row", bound=Expiring)


async def next_due(waiting: Callable[[], Iterable[_Row]], changed: asyncio.Event) -> _Row:
    """The one of `waiting` that expires first, when it does; asked again whenever `changed` is set."""
    while True:
        changed.clear()
        first = min(waiting(), key=lambda row: row.expires_us, default=None)
        wait_s = None if first is None else (first.expires_us - now_us()) / 1e6
        if first is not None and wait_s is not None and wait_s <= 0:
            return first
        try:
            async with asyncio.timeout(wait_s):
                await changed.wait()
        except TimeoutError:
            continue
