"""Group commit of one file: those who wait at the same time share one fdatasync."""

import asyncio
import os

from ..disk import Disk
from ..errors import AuditError


class Syncer:
    """Makes the beginning of an append-only file durable. The descriptor stays the caller's; `close` ends a thread."""

    def __init__(self, file: int, name: str) -> None:
        """`name` is what errors call the file. All of it may still be in memory."""
        self._file = file
        self._name = name
        self._covered = 0
        #: The size that the sync under way covers; 0 where none is.
        self._running = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: AuditError | None = None
        self._disk: Disk | None = None

    @property
    def failed(self) -> bool:
        """What the kernel failed to write once it may drop in silence later: nothing after it can be trusted."""
        return self._failure is not None

    async def durable(self, position: int) -> None:
        """Return when the file's first `position` bytes are on disk. Raises AuditError, from the first failure on."""
        if self._failure is not None:
            raise self._failure
        if position <= self._covered:
            return
        if position > os.fstat(self._file).st_size:
            raise AuditError(f"the {self._name} is shorter than what is waited for", value=position)
        synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((position, synced))
        if not self._running:
            self._sync()
        await synced

    def close(self) -> None:
        """Wait for the sync under way and end the thread; another `durable` would start one again."""
        disk, self._disk = self._disk, None
        if disk is not None:
            disk.close()

    def _sync(self) -> None:
        self._running = os.fstat(self._file).st_size
        if self._disk is None:
            self._disk = Disk(self._synced, self._name)
        self._disk.sync(self._file, [])

    def _synced(self, error: OSError | None) -> None:
        covered, self._running = self._running, 0
        if error is not None:
            self._fail(error)
            return
        self._covered = covered
        waiting, self._waiting = self._waiting, []
        for position, synced in waiting:
            if position > covered:
                self._waiting.append((position, synced))
            elif not synced.done():
                synced.set_result(None)
        if self._waiting:
            self._sync()

    def _fail(self, error: OSError) -> None:
        self._failure = AuditError(
            f"the {self._name} can't be made durable: {error}", remedy="Mend the disk, then restart the daemon."
        )
        for _, synced in self._waiting:
            if not synced.done():
                synced.set_exception(self._failure)
        self._waiting.clear()
