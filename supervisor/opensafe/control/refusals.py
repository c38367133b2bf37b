"""Refused requests on record, at a bounded pace: a client can't grow the log by asking for what it may not have.

Up to `caps.refusals_per_s` refusals of a principal are recorded one by one within a second. Those beyond are answered
with LIMIT_EXCEEDED and counted, and one record at the second's end says how many there were: nothing goes unsaid.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from opensafe.audit.log import AuditLog
from opensafe.errors import LimitExceeded, RequestError
from opensafe.model.ids import CALL_ID_MAX, now_us
from opensafe.model.records import RefusalRecord

_SHORT: Final = 64


class Pace:
    """At most `limit` events of a key within a second of the monotonic clock. Keys are principals: a closed set."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._second = 0
        self._events: Counter[str] = Counter()

    def allows(self, key: str) -> bool:
        """Whether one more event fits; it is counted if it does."""
        second = int(time.monotonic())
        if second != self._second:
            self._second = second
            self._events.clear()
        if self._events[key] >= self.limit:
            return False
        self._events[key] += 1
        return True


class Flow:
    """A token bucket of bytes for each principal: what it may have recorded. Bursts of ten seconds are let through."""

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, key: str, size: int) -> None:
        """Use up `size` bytes. Raises LimitExceeded where they are not there."""
        now, most = time.monotonic(), 10.0 * self._per_s
        left, since = self._left.get(key, (most, now))
        left = min(most, left + (now - since) * self._per_s)
        if size > left:
            raise LimitExceeded(
                "too many bytes of arguments within a short time",
                value=size,
                limit=f"caps.arguments_bytes_per_s = {self._per_s}",
                remedy="Send less, or wait some seconds.",
            )
        self._left[key] = (left - size, now)


class Refusals:
    """Writes the records. `watch` is the task that writes the counted ones; `flush` does so at the end."""

    def __init__(self, log: AuditLog, per_second: int) -> None:
        self._log = log
        self._pace = Pace(per_second)
        self._counted: Counter[str] = Counter()
        self._some = asyncio.Event()

    @asynccontextmanager
    async def noted(
        self, principal: str, *, session_id: str = "", call_id: str = "", tool: str = "", request: str = ""
    ) -> AsyncIterator[None]:
        """A request of `principal`: what is raised as RequestError within is on record before it goes on.

        Raises LimitExceeded in its place where there are too many.
        """
        try:
            yield
        except RequestError as error:
            if not self._pace.allows(principal):
                self._counted[principal] += 1
                self._some.set()
                raise LimitExceeded(
                    "too many refused requests within a second",
                    limit=f"caps.refusals_per_s = {self._pace.limit}",
                    remedy="Mend the request instead of repeating it.",
                ) from error
            await self._log.append(
                RefusalRecord(
                    time_us=now_us(),
                    principal=principal,
                    session_id=session_id[:_SHORT],
                    call_id=call_id[:CALL_ID_MAX],
                    tool=tool[:_SHORT],
                    reason=error.reason,
                    message=str(error),
                    request=request[: 2 * _SHORT],
                )
            )
            raise

    async def watch(self) -> None:
        """Write what was counted, once a second where there is any; runs until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(1)
            await self.flush()

    async def flush(self) -> None:
        """Write what was counted so far."""
        self._some.clear()
        counted, self._counted = self._counted, Counter()
        for principal, count in counted.items():
            await self._log.append(
                RefusalRecord(
                    time_us=now_us(),
                    principal=principal,
                    session_id="",
                    call_id="",
                    tool="",
                    reason=LimitExceeded.reason,
                    message=f"more refused requests than are recorded one by one: {count}",
                    count=count,
                )
            )
