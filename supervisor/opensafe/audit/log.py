"""The audit log's writer: one chain, many callers, one fdatasync for all that wait (group commit).

`write` binds a record to the chain, puts it into the file and folds it, at once and in order; `sync` returns when it
is on disk, and with it all before it. `append` is both, and what every caller uses that has nothing to do meanwhile.
After the first failure (disk full, I/O error) the log stays failed: a record that can't be proven durable must not be
followed by one that claims to be. The descriptor comes from the warden and can only append; so does that of the next
segment, when one is full.
"""

import asyncio
import logging
import os
import pathlib
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from opensafe.disk import Disk
from opensafe.errors import AuditError, OpenSafeError, StaleIndex
from opensafe.model import chain, records
from opensafe.model.canonical import NotCanonicalError
from opensafe.model.ids import is_call_id
from opensafe.model.records import DecisionRecord, Record, TornRecord

from . import opening
from .masked import masked
from .segment import is_ended

_log = logging.getLogger(__name__)

#: What is kept of this run's records for readers: at most so many, of so many bytes.
_RECENT: Final = 10_000
_RECENT_BYTES: Final = 16 << 20


class Written(chain.Sealed, frozen=True):
    """A record in the file: the sealed line, its record's kind, and the segment and byte offset at which it lies."""

    kind: str
    segment: int
    offset: int

    @property
    def record(self) -> Record:
        """The record, read from its line: decoded records would weigh several times as much."""
        return records.decode(self.line)

    @property
    def index(self) -> int:
        """Its place in the log."""
        return self.head.size - 1

    @property
    def session_id(self) -> str:
        """Of the session that it is of, or ""."""
        return _of(self.line).session_id


class _Of(msgspec.Struct, frozen=True):
    session_id: str = ""


_of: Final = msgspec.json.Decoder(_Of).decode


#: Begins another segment: its number and a descriptor for it.
NextSegment = Callable[[], Awaitable[tuple[int, int]]]


class AuditLog:
    """Append-only writer of the last segment. Owns its descriptor, a thread and at times a task; `close` ends them."""

    def __init__(
        self,
        descriptor: int,
        paths: Sequence[pathlib.Path],
        fold: Callable[[int, Record, str], None],
        *,
        segment_bytes: int = 0,
        next_segment: NextSegment | None = None,
    ) -> None:
        """descriptor: of the last of `paths`, which are all segments. next_segment: asked at `segment_bytes` bytes."""
        self._descriptor = descriptor
        self._paths = paths
        self._segment = len(paths) - 1
        #: Of segments that are full, until they are on disk.
        self._ended: list[int] = []
        self._full_at = segment_bytes
        self._segment_bytes = segment_bytes
        self._next_segment = next_segment
        self._turning: asyncio.Task[None] | None = None
        self._head = chain.Head()
        self._offset = 0
        self._failure: AuditError | None = None
        #: Set when the log takes no more records.
        self.failed = asyncio.Event()
        self._unsynced: deque[Written] = deque()
        #: How many of them the sync under way covers; 0 where none is.
        self._covered = 0
        #: Who waits for a head of this size to be on disk.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._moved: asyncio.Future[None] | None = None
        self._recent: deque[Written] = deque()
        self._recent_bytes = 0
        self._opened = 0
        self._disk: Disk | None = None
        self._fold = fold

    async def open(self, known: tuple[int, str] = (0, "")) -> None:
        """Verify what the segments hold, fold each record, account for a torn tail, start writing.

        known: how many records the index holds, and the leaf hash of the last. Raises StaleIndex where that is no
        part of this log, AuditError where the chain is broken or can't be continued: a log that is not intact is not.
        """
        fragment = b""
        try:
            found = opening.read(self._paths, known)
            self._head = found.head
            try:
                for link in found.links:
                    if link.index + 1 == known[0] and link.leaf != known[1]:
                        raise StaleIndex("the index is of another log", value=known[1], limit=link.leaf)
                    self._fold(link.index, msgspec.convert(link.record, Record), link.leaf)
                    self._head = chain.Head(link.index + 1, link.leaf)
            except chain.UnaccountedError as torn:
                fragment = torn.fragment
            if self._head.size < known[0]:
                raise StaleIndex("the index knows more than the log", value=known[0], limit=self._head.size)
        except chain.ChainBrokenError as error:
            raise AuditError(
                f"the audit log is not intact: {error}",
                value=self._paths[-1].name,
                remedy="Keep the file as evidence, run `opensafe audit verify`, start with a fresh state directory.",
            ) from error
        try:
            self._continue(fragment)
        except OSError as error:
            raise AuditError(
                f"the audit log can't be continued: {error}",
                value=self._paths[-1].name,
                remedy="Free the disk or mend it, then start the daemon again.",
            ) from error
        self._opened = self._head.size
        self._disk = Disk(self._synced, "audit")

    @property
    def head(self) -> chain.Head:
        """The chain's end as far as records were written."""
        return self._head

    @property
    def durable(self) -> int:
        """How many records of this run and before are on disk, as a position to `follow` from."""
        return self._recent[-1].head.size if self._recent else self._opened

    @property
    def remembered(self) -> int:
        """The first record that `follow` can begin with, as an index; what is older only the segments have."""
        return self._recent[0].index if self._recent else self._opened

    @property
    def failure(self) -> AuditError | None:
        """Why the log takes no more records, if it doesn't."""
        return self._failure

    async def append(self, record: Record) -> Written:
        """Write `record` and wait until it is on disk. Raises AuditError."""
        written = self.write(record)
        await self.sync(written)
        return written

    def write(self, record: Record) -> Written:
        """Bind `record` to the chain, write it without its secrets, and fold it.

        What depends on it must not happen before `sync` returned. Raises AuditError.
        """
        if self._failure is not None:
            raise self._failure
        try:
            sealed = chain.seal(self._head, record)
            if (fields := masked(record, sealed.line)) is not None:
                sealed = chain.seal(self._head, fields)
        except (NotCanonicalError, msgspec.DecodeError) as error:
            raise AuditError(f"the record has no canonical form: {error}") from error
        kind = str(record.__struct_config__.tag)
        written = Written(sealed.line, sealed.leaf, sealed.head, kind, self._segment, self._offset)
        try:
            self._put(sealed.line + b"\n")
            self._fold(sealed.head.size - 1, record, sealed.leaf)
        except (OSError, sqlite3.Error, AuditError) as error:
            raise self._fail(error) from error
        self._head = sealed.head
        self._offset += len(sealed.line) + 1
        self._unsynced.append(written)
        self._sync_what_waits()
        if self._next_segment is not None and self._turning is None and self._offset >= self._full_at:
            self._turning = asyncio.create_task(self._turn(self._next_segment), name="audit-segment")
        return written

    async def sync(self, written: Written) -> None:
        """Return when `written`, of this run, is on disk. Raises AuditError."""
        if written.head.size <= self.durable:
            return
        if self._failure is not None:
            raise self._failure
        synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((written.head.size, synced))
        await synced

    async def read(self, last: int, *, follow: bool) -> AsyncIterator[Written]:
        """Yield the `last` most recent records of this run; with `follow` then each new one as it becomes durable.

        A reader that falls more than 10,000 records or 16 MiB behind ends with AuditError instead of skipping any.
        """
        pending = list(self._recent)[len(self._recent) - min(last, len(self._recent)) :] if last else []
        position = self.durable
        for written in pending:
            yield written
        if follow:
            async for written in self.follow(position):
                yield written

    async def follow(self, position: int) -> AsyncIterator[Written]:
        """Yield each record from index `position` on as it becomes durable. Raises AuditError as `read` does."""
        while True:
            while self.durable <= position or not self._recent:
                if self._moved is None:
                    self._moved = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._moved)
            if self._recent[0].head.size > position + 1:
                raise AuditError(
                    "the reader fell behind",
                    limit=f"{_RECENT} records, {_RECENT_BYTES} bytes",
                    remedy="Read the segment files.",
                )
            fresh = []
            for written in reversed(self._recent):  # from its end: a reader that keeps up never walks it all
                if written.head.size <= position:
                    break
                fresh.append(written)
            fresh.reverse()
            position = fresh[-1].head.size
            for written in fresh:
                yield written

    def decision(self, wanted: str) -> DecisionRecord | None:
        """The latest decision with that id or call_id among the last 10,000 records of this run."""
        if not is_call_id(wanted):
            return None
        named = tuple(f'"{field}":"{wanted}"'.encode() for field in ("decision_id", "call_id"))
        for written in reversed(self._recent):  # the line is looked through first: decoding ten thousand takes too long
            if written.kind != "decision" or not any(name in written.line for name in named):
                continue
            record = written.record
            if isinstance(record, DecisionRecord) and wanted in (record.decision_id, record.call_id):
                return record
        return None

    async def close(self) -> None:
        """Wait for the disk, then end task and thread."""
        if self._turning is not None:
            self._turning.cancel()
            await asyncio.gather(self._turning, return_exceptions=True)
        with suppress(AuditError):
            while self._unsynced:
                await self.sync(self._unsynced[-1])
        if self._disk is not None:
            self._disk.close()
        for descriptor in (*self._ended, self._descriptor):
            os.close(descriptor)

    async def _turn(self, next_segment: NextSegment) -> None:
        """Go on in another segment. Without one the log goes on in this, and asks again after as much."""
        try:
            number, descriptor = await next_segment()
        except OpenSafeError as error:
            _log.error("the audit log's segment is full and there is no other: %s", error)
            self._full_at = self._offset + self._segment_bytes
        else:
            self._ended.append(self._descriptor)
            self._descriptor, self._segment, self._offset = descriptor, number, 0
            self._full_at = self._segment_bytes
            self._sync_what_waits()
        finally:
            self._turning = None

    def _continue(self, fragment: bytes) -> None:
        """End the last line, account for `fragment`, and put on disk what the life before may have left in memory.

        A torn line can be a whole record that lacks its newline. Nothing is served yet, so nobody waits for this.
        """
        for path in self._paths[-2:]:
            _sync(path)
        if not is_ended(self._paths[-1]):
            self._put(b"\n")
        if fragment:
            sealed = chain.seal_torn(self._head, fragment)
            self._put(sealed.line + b"\n")
            os.fdatasync(self._descriptor)
            self._fold(sealed.head.size - 1, msgspec.json.decode(sealed.line, type=TornRecord), sealed.leaf)
            self._head = sealed.head
        self._offset = self._paths[-1].stat().st_size

    def _sync_what_waits(self) -> None:
        """Begin a sync where none is under way: it covers all that was written until now."""
        if self._disk is not None and not self._covered and self._unsynced:
            self._covered = len(self._unsynced)
            ended, self._ended = self._ended, []
            self._disk.sync(self._descriptor, ended)

    def _synced(self, error: OSError | None) -> None:
        covered, self._covered = self._covered, 0
        if error is not None:
            self._fail(error)
        if self._failure is not None:
            return
        for _ in range(covered):
            self._remember(self._unsynced.popleft())
        waiting, self._waiting = self._waiting, []
        for size, synced in waiting:
            if size > self.durable:
                self._waiting.append((size, synced))
            elif not synced.done():
                synced.set_result(None)
        if self._moved is not None:
            self._moved.set_result(None)
            self._moved = None
        self._sync_what_waits()

    def _remember(self, written: Written) -> None:
        self._recent.append(written)
        self._recent_bytes += len(written.line)
        while len(self._recent) > _RECENT or (self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1):
            self._recent_bytes -= len(self._recent.popleft().line)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def _fail(self, error: Exception) -> AuditError:
        self._failure = AuditError(
            f"the audit log can't be written: {error}",
            value=f"segment {self._segment}",
            remedy="Nothing executes until it can: free the disk or mend it, then restart the daemon.",
        )
        self.failed.set()
        self._unsynced.clear()
        for _, synced in self._waiting:
            if not synced.done():
                synced.set_exception(self._failure)
        self._waiting.clear()
        return self._failure


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
