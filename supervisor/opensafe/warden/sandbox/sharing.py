"""Who lives in a sandbox side by side: a call that may reach names lives there alone.

The gateway tells sandboxes apart by their addresses and can't tell calls. So what one call was granted is open only
while nobody else's program is there to use it; the other is refused and can be sent again. The file helper is our own
program, opens no connection, and may come and go.
"""

import asyncio
import contextlib
from typing import Final

from ...errors import Conflict
from ...model.sandbox import Launch
from . import layout

FILE_HELPER: Final = f"{layout.GUEST_TOOLS}/file"
#: How long a start waits for who is just leaving: an end is told before all that follows from it is done.
_LEAVING_S: Final = 1.0


class Sharing:
    """Calls by sandbox, and which of them was granted names."""

    def __init__(self, *, apart: bool = True) -> None:
        """apart: a call with names lives alone. Else they are the session's, and what it opened outlives it."""
        self._apart = apart
        self._calls: dict[str, dict[str, bool]] = {}
        self._left = asyncio.Event()

    async def waited(self, launch: Launch, *, networked: bool) -> bool:
        """Return when there would be room for it, or after a second: `enter` then says what is in the way.

        Whether that took any time, in which everything may have changed.
        """
        if not self._in_the_way(launch, networked=networked):
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while self._in_the_way(launch, networked=networked):
                    self._left.clear()
                    await self._left.wait()
        return True

    def enter(self, launch: Launch, *, networked: bool) -> None:
        """A call is about to start. Raises Conflict where it, or one there, would not be alone with its grant."""
        if launch.program.argv[0] == FILE_HELPER:
            return
        other = self._in_the_way(launch, networked=networked)
        if other:
            who = "needs its" if networked else "has this"
            raise Conflict(
                f"a call with the network {who} sandbox for itself",
                value=other,
                remedy="Send it again when the call that runs has ended, or in another sandbox.",
            )
        self._calls.setdefault(launch.sandbox_id, {})[launch.exec_id] = networked

    def networked(self, sandbox_id: str, exec_id: str) -> bool:
        """Whether it lives there and was granted names that are its own."""
        return self._apart and self._calls.get(sandbox_id, {}).get(exec_id, False)

    def living(self, sandbox_id: str) -> tuple[str, ...]:
        """The calls that have a place there."""
        return tuple(self._calls.get(sandbox_id, ()))

    def leave(self, sandbox_id: str, exec_id: str) -> None:
        """Nothing of it runs any more, and nothing that it opened is open."""
        calls = self._calls.get(sandbox_id, {})
        calls.pop(exec_id, None)
        if not calls:
            self._calls.pop(sandbox_id, None)
        self._left.set()

    def _in_the_way(self, launch: Launch, *, networked: bool) -> str:
        """A call beside which it can't start, or ""."""
        if not self._apart or launch.program.argv[0] == FILE_HELPER:
            return ""
        others = self._calls.get(launch.sandbox_id, {})
        return next((exec_id for exec_id, granted in others.items() if networked or granted), "")
