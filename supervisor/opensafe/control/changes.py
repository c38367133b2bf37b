"""Changes of sandboxes: one at a time for each, and each on record.

Requests, leases, losses and removals all change the same sandboxes. Whoever holds a sandbox's turn sees what the one
before made of it; no state is left but through a record.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opensafe.audit.log import AuditLog
from opensafe.errors import NotFound
from opensafe.model.ids import now_us
from opensafe.model.records import SandboxRecord
from opensafe.state.rows import SandboxRow
from opensafe.state.store import Store

from .turns import Turns


class Changes:
    """The turns, and the pen."""

    def __init__(self, log: AuditLog, store: Store) -> None:
        self._log = log
        self._store = store
        self._turns = Turns()
        #: Set with each change: what waits for a lease to end looks again.
        self.happened = asyncio.Event()

    @asynccontextmanager
    async def turn(self, sandbox_id: str) -> AsyncIterator[SandboxRow]:
        """The right to change a sandbox, with the sandbox as it is now. Raises NotFound."""
        async with self._turns.of(sandbox_id):
            row = self._store.sandbox(sandbox_id)
            if row is None:
                raise NotFound("no such sandbox", value=sandbox_id)
            yield row

    async def record(self, row: SandboxRow, state: str, cause: str = "", expires_us: int = 0) -> SandboxRow:
        """Put the change on record; the sandbox as it then is. Within its turn. Raises AuditError."""
        await self.write(
            SandboxRecord(
                time_us=now_us(),
                sandbox_id=row.sandbox_id,
                session_id=row.session_id,
                principal=row.principal,
                state=state,
                cause=cause,
                expires_us=expires_us,
            )
        )
        return self._store.sandbox(row.sandbox_id) or row

    async def write(self, record: SandboxRecord) -> None:
        """Append a record of a sandbox. Raises AuditError."""
        await self._log.append(record)
        self.happened.set()
