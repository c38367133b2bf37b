"""Repeating what may be repeated: a request that the daemon could not take, under the call_id it was made with.

The daemon runs a call_id once: what arrived already is attached to or answered from the record. Nothing else is
repeated, and nothing of which a part was handed out.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from opensafe.errors import Unavailable

Answer = TypeVar("Answer")


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and after how many seconds: each pause is twice the one before, up to most_s, less up to a half."""

    attempts: int = 10
    first_s: float = 0.1
    most_s: float = 2.0

    async def pause(self, failures: int) -> None:
        """Wait after that many failures in a row."""
        whole: float = min(self.most_s, self.first_s * 2 ** (failures - 1))
        await asyncio.sleep(whole * random.uniform(0.5, 1))  # noqa: S311 - it spreads clients, and guards nothing


async def repeating(retry: Retry, request: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer to `request`, which says the same thing under the same call_id each time it is made."""
    failures = 0
    while True:
        try:
            return await request()
        except Unavailable:
            failures += 1
            if failures >= retry.attempts:
                raise
        await retry.pause(failures)
