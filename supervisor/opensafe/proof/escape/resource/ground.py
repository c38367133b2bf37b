"""What the probes of this boundary stand on: cells with a neighbour, daemons as they are shipped, and mutated ones.

Each is opened when the first probe asks for it, and all are closed together. What is around all cells bounds the
controls as well: a sandbox without limits is harmless to the machine.
"""

import asyncio
import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Self, TypeVar

from opensafe.proof.escape.cell import Cells
from opensafe.proof.world import World

from .counters import bound
from .daemons import Daemon, Kind
from .peer import Peer

#: Of all cells together.
_MEMORY: Final = 3 << 30
_TASKS: Final = 3072

Made = TypeVar("Made")


class Ground:
    """Opened for all probes. memory: held by whoever measures a daemon's memory, to which all its clients add."""

    def __init__(self, stack: contextlib.AsyncExitStack, scratch: pathlib.Path) -> None:
        self.scratch = scratch
        self.memory, self._quiet = asyncio.Lock(), asyncio.Lock()
        self._stack = stack
        self._made: dict[str, Any] = {}
        self._making = asyncio.Lock()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Nothing is made yet."""
        async with contextlib.AsyncExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="opensafe-escape-"))
            yield cls(stack, pathlib.Path(scratch))

    async def cells(self) -> Cells:
        """Where cells are made."""
        return await self._once("cells", self._open_cells)

    @contextlib.asynccontextmanager
    async def suffering(self) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Tells what became of the neighbour meanwhile. One at a time: from a control without limits it does suffer."""
        peer = await self._once("peer", self._open_peer)
        async with self._quiet:
            since = asyncio.get_running_loop().time()
            yield lambda: peer.suffered(since)

    async def daemon(self, kind: Kind) -> Daemon:
        """The daemon of a kind that all probes share."""
        return await self._once(kind.name, lambda: self._stack.enter_async_context(Daemon.running(kind)))

    async def world(self) -> World:
        """The small internet."""
        return await self._once("world", lambda: self._stack.enter_async_context(World.open()))

    async def _once(self, name: str, make: Callable[[], Awaitable[Made]]) -> Made:
        async with self._making:
            if name not in self._made:
                self._made[name] = await make()
            made: Made = self._made[name]
            return made

    async def _open_cells(self) -> Cells:
        return await self._stack.enter_async_context(Cells.open())

    async def _open_peer(self) -> Peer:
        if "cells" not in self._made:
            self._made["cells"] = await self._open_cells()
        cells: Cells = self._made["cells"]
        cell = await self._stack.enter_async_context(cells.cell())
        for directory in cell.cgroup.directories:
            bound(pathlib.Path(directory).parent, memory_bytes=_MEMORY, tasks=_TASKS)
        return await self._stack.enter_async_context(Peer.living(cell))
