"""What the probes of this boundary stand on: cells with a neighbour, daemons as they are shipped, and mutated ones.

Each is opened when the first probe asks for it, and all are closed together. What is around all cells bounds the
controls as well: a sandbox without limits is harmless to the machine.
"""

import asyncio
import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final, Self

from opensafe.proof.escape.cell import Cells
from opensafe.proof.escape.keeping import Keeping
from opensafe.proof.world import World

from .counters import bound
from .daemons import Daemon, Kind
from .peer import Peer

#: Of all cells together.
_MEMORY: Final = 3 << 30
_TASKS: Final = 3072


class Ground:
    """Opened for all probes. memory: held by whoever measures a daemon's memory, to which all its clients add."""

    def __init__(self, keeping: Keeping, scratch: pathlib.Path) -> None:
        self.scratch = scratch
        self.memory, self._quiet = asyncio.Lock(), asyncio.Lock()
        self._kept = keeping.kept

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Nothing is made yet."""
        with tempfile.TemporaryDirectory(prefix="opensafe-escape-") as scratch:
            async with Keeping.open() as keeping:
                yield cls(keeping, pathlib.Path(scratch))

    async def cells(self) -> Cells:
        """Where cells are made."""
        return await self._kept("cells", Cells.open)

    @contextlib.asynccontextmanager
    async def suffering(self) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Tells what became of the neighbour meanwhile. One at a time: from a control without limits it does suffer."""
        peer = await self._kept("peer", self._peer)
        async with self._quiet:
            since = asyncio.get_running_loop().time()
            yield lambda: peer.suffered(since)

    async def daemon(self, kind: Kind) -> Daemon:
        """The daemon of a kind that all probes share."""
        return await self._kept(kind.name, partial(Daemon.running, kind))

    async def world(self) -> World:
        """The small internet."""
        return await self._kept("world", World.open)

    @contextlib.asynccontextmanager
    async def _peer(self) -> AsyncIterator[Peer]:
        cells = await self.cells()
        async with cells.cell() as cell:
            for directory in cell.cgroup.directories:
                bound(pathlib.Path(directory).parent, memory_bytes=_MEMORY, tasks=_TASKS)
            async with Peer.living(cell) as peer:
                yield peer
