"""Verdicts and ends on their way to the front, which puts them on record: in batches, without anybody waiting.

While the front is behind or away they are kept. Refusals that don't fit are counted, and told as one that names no
rule. What was let out and what it moved is never left out, since budgets are made of it: `behind` says when nothing
more is to be let out, and what is open by then has an end each.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from opensafe.errors import LimitExceeded
from opensafe.model.connection import Connection
from opensafe.model.ids import now_us

_KEPT: Final = 8192
_BEHIND: Final = _KEPT // 2
_BATCH: Final = 64
#: How long they gather: each packet wakes two processes, which are taken from the ones that guests wait for.
_GATHER_S: Final = 0.02
#: After a refusal: the front reads its batch meanwhile.
_PAUSE_S: Final = 0.2

Send = Callable[[Sequence[Connection]], Awaitable[None]]


class Delivery:
    """`add` from anywhere in the loop; `run` sends."""

    def __init__(self, send: Send) -> None:
        """send: takes a batch. Raises LimitExceeded where there is no room for it now."""
        self._send = send
        self._kept: deque[Connection] = deque()
        self._dropped = 0
        self._added = asyncio.Event()

    def add(self, connection: Connection) -> None:
        """Have it put on record."""
        if len(self._kept) < _KEPT or connection.state != "refused":
            self._kept.append(connection)
        else:
            self._dropped += connection.count
        self._added.set()

    def behind(self) -> bool:
        """Whether so much waits that nothing should be let out."""
        return len(self._kept) >= _BEHIND

    async def run(self) -> None:
        """Send until cancelled. Raises what `send` raises but LimitExceeded."""
        while True:
            await self._added.wait()
            await asyncio.sleep(_GATHER_S)
            self._added.clear()
            while self._kept:
                batch = [self._kept[index] for index in range(min(_BATCH, len(self._kept)))]
                try:
                    await self._send(batch)
                except LimitExceeded:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                for _ in batch:
                    self._kept.popleft()
                self._tell_dropped()

    def _tell_dropped(self) -> None:
        if self._dropped:
            count, self._dropped = self._dropped, 0
            reason = "these came too fast to be kept apart"
            self._kept.append(Connection(time_us=now_us(), state="refused", reason=reason, count=count))
