"""Removing sandboxes: wanted on record first, then done, repeated until it is done, and that on record as well.

The answer to a request does not depend on how long it takes: what is being removed is `deleting` until it is `deleted`,
across a restart, too.
"""

import asyncio
from typing import Final

from opensafe.errors import AuditError, Conflict, NotFound, OpenSafeError, Unavailable
from opensafe.warden.client import WardenClient

from .changes import Changes

#: Between attempts, in seconds: doubled from the first to the last.
_FIRST_S: Final = 0.05
_LAST_S: Final = 60.0
_CAUSE_MAX: Final = 300


class Removals:
    """Owns a task for each sandbox that is being removed; `close` ends them."""

    def __init__(self, changes: Changes, warden: WardenClient) -> None:
        self._changes = changes
        self._warden = warden
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tried: dict[str, asyncio.Future[None]] = {}

    async def begin(self, sandbox_id: str, cause: str) -> None:
        """Returns when the wish is on record. Of one that was lost the cause stays. Raises NotFound, AuditError."""
        async with self._changes.turn(sandbox_id) as row:
            match row.state:
                case "deleted":
                    return
                case "lost":
                    await self._changes.record(row, "deleting")
                case "running" | "paused":
                    await self._changes.record(row, "deleting", cause)
        self._start(sandbox_id)

    async def tried(self, sandbox_id: str) -> None:
        """When it is removed, or the first attempt has failed: then raises SandboxError; it is tried again."""
        future = self._tried.get(sandbox_id)
        if future is not None:
            await asyncio.shield(future)

    async def close(self) -> None:
        """Give up. What is not removed stays on record as being deleted."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _start(self, sandbox_id: str) -> None:
        if sandbox_id in self._tasks:
            return
        tried: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tried.add_done_callback(lambda future: future.cancelled() or future.exception())  # read: not all wait for it
        self._tried[sandbox_id] = tried
        task = asyncio.create_task(self._remove(sandbox_id, tried), name=f"remove-{sandbox_id}")
        self._tasks[sandbox_id] = task
        task.add_done_callback(lambda _: self._ended(sandbox_id))

    def _ended(self, sandbox_id: str) -> None:
        del self._tasks[sandbox_id]
        tried = self._tried.pop(sandbox_id)
        if not tried.done():
            tried.set_exception(
                Unavailable("the removal was given up", remedy="A restart of the daemon goes on with it.")
            )

    async def _remove(self, sandbox_id: str, tried: asyncio.Future[None]) -> None:
        pause_s = _FIRST_S
        try:
            while not await self._attempt(sandbox_id, tried):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_S)
            async with self._changes.turn(sandbox_id) as row:
                if row.state == "deleting":
                    await self._changes.record(row, "deleted")
        except (Unavailable, AuditError) as error:
            # The front is about to end, and the next one goes on.
            if not tried.done():
                tried.set_exception(error)
        if not tried.done():
            tried.set_result(None)

    async def _attempt(self, sandbox_id: str, tried: asyncio.Future[None]) -> bool:
        try:
            await self._warden.delete_sandbox(sandbox_id)
        except NotFound:
            return True  # which is what was wanted
        except Conflict:
            return False  # it is being removed already: see what comes of that
        except (Unavailable, AuditError):
            raise
        except OpenSafeError as error:
            cause = f"not removed yet: {error}"[:_CAUSE_MAX]
            async with self._changes.turn(sandbox_id) as row:
                if row.state == "deleting" and row.cause != cause:
                    await self._changes.record(row, "deleting", cause)
            if not tried.done():
                tried.set_exception(error)
            return False
        return True
