"""Group commit of one file: those who wait at the same time share one fdatasync."""

import asyncio
import os

from ..errors import AuditError


class Syncer:
    """Makes the beginning of an append-only file durable. The descriptor stays the caller's."""

    def __init__(self, file: int, name: str) -> None:
        """`name` is what errors call the file. All of it may still be in memory."""
        self._file = file
        self._name = name
        self._covered = 0
        self._running: asyncio.Future[None] | None = None
        self._failure: AuditError | None = None

    @property
    def failed(self) -> bool:
        """What the kernel failed to write once it may drop in silence later: nothing after it can be trusted."""
        return self._failure is not None

    async def durable(self, position: int) -> None:
        """Return when the file's first `position` bytes are on disk. Raises AuditError, from the first failure on."""
        while self._covered < position:
            if self._failure is not None:
                raise self._failure
            # One that is done may have begun before these bytes; waiting for it would return at once, for ever.
            if self._running is None or self._running.done():
                self._running = asyncio.ensure_future(self._sync())
            await asyncio.shield(self._running)

    async def _sync(self) -> None:
        try:
            covered = os.fstat(self._file).st_size
            await asyncio.to_thread(os.fdatasync, self._file)
        except OSError as error:
            self._failure = AuditError(
                f"the {self._name} can't be made durable: {error}", remedy="Mend the disk, then restart the daemon."
            )
            raise self._failure from error
        self._covered = covered
