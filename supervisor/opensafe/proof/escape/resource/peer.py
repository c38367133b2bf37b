"""A neighbour: a sandbox whose program says every moment that it lives, and the host notes when it heard it."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterable
from typing import Final, Self

from opensafe.proof.escape.cell import Cell

#: Ten lines a second.
_PROGRAM: Final = "import time\nwhile True:\n    print('alive', flush=True)\n    time.sleep(0.1)"
_TICK_S: Final = 0.1
#: The most that a neighbour may stand still, in seconds, and how many times as long as this process itself did: a host
#: that has too much else to do keeps both waiting.
PATIENCE_S: Final = 10.0
_TIMES: Final = 3


class Peer:
    """The neighbour's beats as they came in."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._loop = asyncio.get_running_loop()
        self._beats: list[float] = []
        self._ticks: list[float] = []
        self._beat: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    @contextlib.asynccontextmanager
    async def living(cls, cell: Cell) -> AsyncIterator[Self]:
        """Let the program run in a cell of its own meanwhile."""
        peer = cls(cell)
        launch = cell.launch("python3", "-c", _PROGRAM)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        read, write = os.pipe2(os.O_CLOEXEC)
        try:
            with cell.programs.reserved(launch):
                await cell.programs.start(launch, null, write, null)
        finally:
            os.close(null)
            os.close(write)
        listening, ticking = asyncio.create_task(peer._listen(read)), asyncio.create_task(peer._tick())
        try:
            await peer.beat()
            yield peer
        finally:
            ticking.cancel()
            await cell.programs.kill(launch.exec_id)
            await asyncio.gather(listening, ticking, return_exceptions=True)

    async def beat(self) -> None:
        """Return with the next beat. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.shield(self._beat)

    async def suffered(self, since: float) -> str:
        """What became of the neighbour since then (loop time); "" where it lives and never stood still for long."""
        with contextlib.suppress(TimeoutError):
            await self.beat()
        if self._cell.sandbox.cause:
            return f"the neighbour ended: {self._cell.sandbox.cause}"
        still, ours = (longest(since, times, self._loop.time()) for times in (self._beats, self._ticks))
        return f"the neighbour stood still for {still:.1f} s" if still > max(PATIENCE_S, _TIMES * ours) else ""

    async def _tick(self) -> None:
        while True:
            self._ticks.append(self._loop.time())
            await asyncio.sleep(_TICK_S)

    async def _listen(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        file = os.fdopen(descriptor, "rb", buffering=0)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        try:
            while await reader.readline():
                self._beats.append(self._loop.time())
                beat, self._beat = self._beat, self._loop.create_future()
                beat.set_result(None)
        finally:
            transport.close()


def longest(since: float, times: Iterable[float], now: float) -> float:
    """The longest time between two of them."""
    return max(after - before for before, after in itertools.pairwise([since, *(t for t in times if t > since), now]))
