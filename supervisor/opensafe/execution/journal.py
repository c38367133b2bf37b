"""The output of one call: written once, read by any number of readers, bounded.

The fastest reader sets the pace: while even that one lags, the writer waits, so a slow client slows the guest and never
grows the daemon, and a stalled one beside others harms nobody: it gets what is still retained, and a gap before it.
Nobody holds the program back where nobody reads. A reader counts from the moment it is made, not from its first look.
"""

import asyncio
from collections import deque
from typing import Final

import msgspec

from opensafe.errors import InvalidArgument

#: How far the writer may run ahead of the fastest reader, in bytes.
_WINDOW: Final = 256 * 1024
#: Pieces of one stream are joined up to this size, so that a program that writes bytes one by one costs no more.
_JOINED: Final = 4096
#: What one retained piece costs beside its bytes.
_OVERHEAD: Final = 256

STDOUT: Final = 1
STDERR: Final = 2


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of one stream (STDOUT or STDERR); `offset` counts both streams' bytes before it."""

    stream: int
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + len(self.data)

    def since(self, offset: int) -> "Chunk":
        """What of it lies at or after `offset`."""
        skipped = offset - self.offset
        return self if skipped <= 0 else Chunk(self.stream, offset, self.data[skipped:])


class Gap(msgspec.Struct, frozen=True):
    """Bytes [offset, end) of both streams, which are no longer retained."""

    offset: int
    end: int


class Journal:
    """Retains the last `retained` bytes, less what their pieces cost."""

    def __init__(self, retained: int) -> None:
        self._retained = max(retained, _WINDOW)
        self._chunks: deque[Chunk] = deque()
        self._first = 0  # number of the first chunk here, counted over the journal's life
        self._held = 0
        self._end = 0
        self._closed = self._hurried = False
        self._readers: set[Reader] = set()
        self._changed: asyncio.Future[None] | None = None
        self._room = asyncio.Event()

    @classmethod
    def gone(cls, written: int) -> "Journal":
        """Of a call that ended and wrote `written` bytes, none of which is retained."""
        journal = cls(0)
        journal._end = written
        journal._closed = True
        return journal

    @property
    def start(self) -> int:
        """Offset of the first byte retained now."""
        return self._chunks[0].offset if self._chunks else self._end

    @property
    def end(self) -> int:
        """How many bytes were written so far."""
        return self._end

    @property
    def size(self) -> int:
        """What is retained now, in bytes of memory."""
        return self._held

    @property
    def closed(self) -> bool:
        """Whether no more output will come."""
        return self._closed

    async def write(self, stream: int, data: bytes) -> None:
        """Append `data`, waiting while all readers lag."""
        while self._lags():
            self._room.clear()
            await self._room.wait()
        last = self._chunks[-1] if self._chunks else None
        if last is not None and last.stream == stream and len(last.data) + len(data) <= _JOINED:
            self._chunks[-1] = Chunk(stream, last.offset, last.data + data)
        else:
            self._chunks.append(Chunk(stream, self._end, data))
            self._held += _OVERHEAD
        self._end += len(data)
        self._held += len(data)
        self._make_room()
        self._notify()
        if not self._readers:
            await asyncio.sleep(0)  # endless output that nobody reads must not keep everybody else from running

    def close(self) -> None:
        """No more output: readers end after the last chunk."""
        self._closed = True
        self._notify()

    def hurry(self) -> None:
        """The program is gone: what is left of its output is little, and no reader holds it back any more."""
        self._hurried = True
        self._room.set()

    def reader(self, offset: int = 0) -> "Reader":
        """A reader from `offset` on, to be closed. Raises InvalidArgument where nothing was written that far."""
        if offset < 0 or (offset > self._end and not self._closed):
            raise InvalidArgument(
                "the offset lies beyond what was written", value=offset, limit=f"0 to {self._end}", remedy="Use 0."
            )
        reader = Reader(self, offset)
        self._readers.add(reader)
        return reader

    def head(self, limit: int) -> bytes:
        """The first bytes of standard output that are retained, at most about `limit`."""
        found = bytearray()
        for chunk in self._chunks:
            if chunk.stream == STDOUT:
                found += chunk.data
                if len(found) >= limit:
                    break
        return bytes(found[:limit])

    # For readers

    def find(self, offset: int, number: int) -> tuple[int, Chunk] | None:
        """The retained chunk that holds `offset`, or the next one, with its number; `number`: of one before it."""
        number = max(number, self._first)
        while number - self._first < len(self._chunks):
            chunk = self._chunks[number - self._first]
            if chunk.end > offset:
                return number, chunk
            number += 1
        return None

    def changed(self) -> asyncio.Future[None]:
        """Done with the next write or `close`. The caller's own: giving it up takes nothing from other readers."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._changed)

    def delivered(self) -> None:
        """A reader moved."""
        self._room.set()

    def leave(self, reader: "Reader") -> None:
        """A reader is gone."""
        self._readers.discard(reader)
        self._room.set()

    def _pace(self) -> int:
        """The offset that the writer must not run away from."""
        return max((reader.delivered for reader in self._readers), default=self._end)

    def _lags(self) -> bool:
        self._make_room()  # after which only what is unread can be too much
        behind = self._end - self._pace()
        return not self._hurried and (behind > _WINDOW or (behind > 0 and self._held > self._retained))

    def _make_room(self) -> None:
        needed = self._pace()
        while self._held > self._retained and self._chunks[0].end <= needed:
            self._held -= len(self._chunks.popleft().data) + _OVERHEAD
            self._first += 1

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None


class Reader:
    """One reader's place. What it takes counts as delivered when it comes for more."""

    def __init__(self, journal: Journal, offset: int) -> None:
        self._journal = journal
        self._number = 0
        self._taken = offset
        self.delivered = offset

    @property
    def ended(self) -> bool:
        """Whether all there is was taken, and nothing will follow."""
        return self._journal.closed and self._taken >= self._journal.end

    def take(self) -> Chunk | Gap | None:
        """The next piece, or what is missing before it; None where there is none yet."""
        journal = self._journal
        if self._taken != self.delivered:
            self.delivered = self._taken
            journal.delivered()
        if self._taken < journal.start:
            gap = Gap(self._taken, journal.start)
            self._taken = gap.end
            return gap
        found = journal.find(self._taken, self._number)
        if found is None:
            return None
        self._number, chunk = found
        rest = chunk.since(self._taken)
        self._taken = chunk.end
        return rest

    def more(self) -> asyncio.Future[None]:
        """Done when there is more to take, or no more will come."""
        journal = self._journal
        if not journal.closed and self._taken >= journal.end:
            return journal.changed()
        now: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        now.set_result(None)
        return now

    def close(self) -> None:
        """Stop reading: the writer no longer waits for this one."""
        self._journal.leave(self)
