"""What the egress helper and the packet rules reported, kept until the front has put it on record."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from ..errors import LimitExceeded
from ..model.connection import Connection

#: For a front that is away or behind. Beyond it the helper keeps what it can and counts the rest.
_KEPT: Final = 8192
#: Of those, what may be kept when a refusal at the first packet comes: the rest is for connections.
_KEPT_PACKETS: Final = 1024
#: In one answer, which has to fit into a packet whatever their texts.
_BATCH: Final = 64


class Connections:
    """Connections by number, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Connection] = deque()
        self._added = asyncio.Event()
        #: The number of the last.
        self._number = 0

    async def add(self, connections: Sequence[Connection]) -> None:
        """Keep more. Raises LimitExceeded, and none of these is kept then."""
        if len(self._kept) + len(connections) > _KEPT:
            raise LimitExceeded(
                "connections wait to be put on record", value=len(self._kept), limit=_KEPT, remedy="Report them later."
            )
        self._keep(connections)

    def offer(self, connection: Connection) -> bool:
        """Keep one of the packet rules' refusals; False where there is no room for it."""
        if len(self._kept) >= _KEPT_PACKETS:
            return False
        self._keep((connection,))
        return True

    async def next(self, after: int) -> tuple[int, tuple[Connection, ...]]:
        """The oldest with numbers above `after`, when there are any, and the last one's number.

        Those up to `after` are forgotten.
        """
        for _ in range(min(after - self._first + 1, len(self._kept))):
            self._kept.popleft()
        while not self._kept:
            self._added.clear()
            await self._added.wait()
        batch = tuple(self._kept[index] for index in range(min(_BATCH, len(self._kept))))
        return self._first + len(batch) - 1, batch

    def _keep(self, connections: Sequence[Connection]) -> None:
        self._kept.extend(connections)
        self._number += len(connections)
        self._added.set()

    @property
    def _first(self) -> int:
        """The number of the oldest that is kept."""
        return self._number - len(self._kept) + 1
