"""Sandboxes that ended by themselves, told to whoever waits for it.

Held until what is left of the sandbox is deleted, so a front that starts anew hears of those it missed, and there are
never more than there are sandboxes.
"""

import asyncio
from typing import Final

from ..protocol import Loss

#: In one answer.
_PAGE: Final = 500


class Losses:
    """In the order in which they happened."""

    def __init__(self) -> None:
        self._losses: dict[str, Loss] = {}
        self._last = 0
        self._more = asyncio.Event()

    def add(self, sandbox_id: str, cause: str) -> None:
        """A sandbox was lost."""
        self._last += 1
        self._losses[sandbox_id] = Loss(number=self._last, sandbox_id=sandbox_id, cause=cause)
        self._more.set()

    def forget(self, sandbox_id: str) -> None:
        """Nothing of it is left."""
        self._losses.pop(sandbox_id, None)

    async def after(self, number: int) -> tuple[Loss, ...]:
        """Those with a higher number, when there are any."""
        while not (found := [loss for loss in self._losses.values() if loss.number > number]):
            self._more.clear()
            await self._more.wait()
        return tuple(found[:_PAGE])
