"""What happens to sandboxes without a request: leases end, sandboxes are lost, and a start agrees with the warden.

The log is the truth and the warden is made to agree with it. Leases are points in time that stand in the index, so they
go on across a restart of the front.
"""

import contextlib
from collections.abc import Iterator

import msgspec

from opensafe.errors import Conflict, NotFound, SandboxError
from opensafe.model.ids import now_us
from opensafe.state.rows import SandboxRow
from opensafe.state.store import Store
from opensafe.warden.client import WardenClient
from opensafe.warden.protocol import SandboxState

from .changes import Changes
from .expiry import next_due
from .removals import Removals


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """When to look at a sandbox again, and what for: `ttl`, `idle`, or `busy` where a call runs now."""

    sandbox_id: str
    expires_us: int
    what: str


class Upkeep:
    """`watch_leases` and `watch_losses` run until they are cancelled."""

    def __init__(self, changes: Changes, removals: Removals, store: Store, warden: WardenClient) -> None:
        self._changes = changes
        self._removals = removals
        self._store = store
        self._warden = warden

    async def reconcile(self) -> None:
        """After a start: what the log knows and the warden has not is lost; what only the warden knows is removed."""
        states = {state.sandbox_id: state for state in await self._warden.list_sandboxes()}
        known = {row.sandbox_id: row for row in self._store.sandboxes.live()}
        for row in known.values():
            await self._agree(row, states.get(row.sandbox_id))
        for sandbox_id in states.keys() - known.keys():
            with contextlib.suppress(NotFound):
                await self._warden.delete_sandbox(sandbox_id)

    async def _agree(self, row: SandboxRow, seen: SandboxState | None) -> None:
        session = self._store.session(row.session_id)
        if seen is None or seen.state == "lost":
            if row.state == "deleting":
                await self._removals.begin(row.sandbox_id, "")
            else:
                cause = seen.cause if seen is not None else "ended while the daemon was away"
                await self._lost(row.sandbox_id, cause)
        elif row.state == "deleting" or session is None or session.closed:
            await self._removals.begin(row.sandbox_id, "session closed")
        elif row.state == "paused":
            await self._warden.pause_sandbox(row.sandbox_id)
        else:
            await self._warden.resume_sandbox(row.sandbox_id)

    async def end_all(self) -> None:
        """The daemon stops, and with it every sandbox: put that on record."""
        for live in self._store.sandboxes.live():
            async with self._changes.turn(live.sandbox_id) as row:
                await self._changes.record(row, "deleted", "" if row.state == "deleting" else "daemon stopped")

    async def watch_losses(self) -> None:
        """Record each sandbox that ends by itself, and free what is left of it."""
        number = 0
        while True:
            for loss in await self._warden.await_lost(number):
                number = loss.number
                with contextlib.suppress(NotFound):
                    await self._lost(loss.sandbox_id, loss.cause)

    async def _lost(self, sandbox_id: str, cause: str) -> None:
        async with self._changes.turn(sandbox_id) as row:
            if row.state not in ("running", "paused"):
                return
            await self._changes.record(row, "lost", cause)
        # What fails here stays with the warden until the sandbox is deleted or the daemon starts anew.
        with contextlib.suppress(NotFound, Conflict, SandboxError):
            await self._warden.delete_sandbox(sandbox_id)

    async def watch_leases(self) -> None:
        """End each lease when it ends."""
        while True:
            due = await next_due(self._dues, self._changes.happened)
            with contextlib.suppress(NotFound):
                await self._end_lease(due)

    def _dues(self) -> Iterator[Due]:
        for row, busy in self._store.sandboxes.leased():
            yield _due(row, busy=busy)

    async def _end_lease(self, due: Due) -> None:
        async with self._changes.turn(due.sandbox_id) as row:
            # Renewed, used or gone since?
            if row.state not in ("running", "paused") or _due(row, busy=self._busy(row)) != due:
                return
            if due.what == "idle" and row.idle_action == "pause":
                await self._pause_idle(row)
                return
        await self._removals.begin(due.sandbox_id, due.what)

    async def _pause_idle(self, row: SandboxRow) -> None:
        try:
            await self._warden.pause_sandbox(row.sandbox_id)
            if self._busy(row):  # a call was allowed meanwhile
                await self._warden.resume_sandbox(row.sandbox_id)
                return
        except (NotFound, SandboxError) as error:
            # Whatever it is, it does not stand still as its record would say.
            await self._changes.record(row, "lost", f"could not be paused: {error.message}")
            return
        await self._changes.record(row, "paused", "idle")

    def _busy(self, row: SandboxRow) -> bool:
        return self._store.sandboxes.busy(row.sandbox_id)


def _due(row: SandboxRow, *, busy: bool) -> Due:
    """Its lease's next event. While a call runs, the idle time can't end before that much time from now."""
    ttl = Due(sandbox_id=row.sandbox_id, expires_us=row.expires_us, what="ttl")
    if not row.idle_timeout_s or (row.state == "paused" and row.idle_action == "pause"):
        return ttl
    since = now_us() if busy else row.active_us
    idle = Due(
        sandbox_id=row.sandbox_id, expires_us=since + row.idle_timeout_s * 10**6, what="busy" if busy else "idle"
    )
    return min(ttl, idle, key=lambda due: due.expires_us)
