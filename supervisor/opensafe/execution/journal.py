"""The output of one call: written once, read by any number of readers, bounded.

A paced reader (the client that started the call) holds the writer back when it lags, so a slow client slows the
guest and never grows the daemon. Unpaced readers (attached later) get what is still retained and are told when
they missed some.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

#: How far the writer may run ahead of a paced reader, in bytes.
_WINDOW: Final = 256 * 1024

STDOUT: Final = 1
STDERR: Final = 2


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of one stream (STDOUT or STDERR); `offset` counts both streams' bytes before it."""

    stream: int
    offset: int
    data: bytes


class Journal:
    """Retains at least the last `retained` bytes."""

    def __init__(self, retained: int) -> None:
        self._retained = max(retained, _WINDOW)
        self._chunks: deque[Chunk] = deque()
        self._paced: dict[object, int] = {}
        self._end = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def size(self) -> int:
        """Bytes retained now."""
        return self._end - (self._chunks[0].offset if self._chunks else self._end)

    async def write(self, stream: int, data: bytes) -> None:
        """Append `data`, waiting while a paced reader lags."""
        while any(self._end - position > _WINDOW for position in self._paced.values()):
            self._room.clear()
            await self._room.wait()
        self._chunks.append(Chunk(stream, self._end, data))
        self._end += len(data)
        self._make_room()
        self._notify()

    def close(self) -> None:
        """No more output: readers end after the last chunk."""
        self._closed = True
        self._notify()

    async def read(self, *, paced: bool) -> AsyncGenerator[Chunk, None]:
        """Yield what is retained, then what is written, until `close`. A gap shows in the chunks' offsets."""
        reader, position = object(), self._chunks[0].offset if self._chunks else self._end
        if paced:
            self._paced[reader] = position
        try:
            while True:
                for chunk in [chunk for chunk in self._chunks if chunk.offset >= position]:
                    yield chunk
                    position = chunk.offset + len(chunk.data)
                    if paced:
                        self._paced[reader] = position
                        self._room.set()
                if position < self._end:
                    continue
                if self._closed:
                    return
                await self._changed.wait()
        finally:
            self._paced.pop(reader, None)
            self._room.set()

    def _make_room(self) -> None:
        needed = min(self._paced.values(), default=self._end)
        while self.size - len(self._chunks[0].data) >= self._retained and self._chunks[0].offset < needed:
            self._chunks.popleft()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
