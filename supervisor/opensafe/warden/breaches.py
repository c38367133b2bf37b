"""What the monitor found, kept until the front has put it on record."""

import asyncio
from collections import deque
from typing import Final

from ..model.breach import Breach

#: For a front that is away. Their calls and sandboxes are ended already.
_KEPT: Final = 1024


class Breaches:
    """Breaches by number, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Breach]] = deque(maxlen=_KEPT)
        self._added = asyncio.Condition()
        self._number = 0

    async def add(self, breach: Breach) -> None:
        """Keep one more."""
        async with self._added:
            self._number += 1
            self._kept.append((self._number, breach))
            self._added.notify_all()

    async def next(self, after: int) -> tuple[int, Breach]:
        """The oldest with a number above `after`, when there is one. Those up to `after` are forgotten."""
        async with self._added:
            while self._kept and self._kept[0][0] <= after:
                self._kept.popleft()
            await self._added.wait_for(lambda: bool(self._kept))
            return self._kept[0]
