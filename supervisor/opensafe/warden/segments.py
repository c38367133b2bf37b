"""The audit log's files, made by root so that the front can add to them and nothing else.

The front gets a write-only append descriptor and a file it may read. Another process's O_APPEND is only a flag
that its holder can clear, so the inode gets the append-only attribute where the file system has one; `append_only`
says whether it does. A torn last line is left as it is: the front states it. A segment that was ended is immutable.
"""

import os
import pathlib
from collections.abc import Iterator
from typing import Final

from ..disk import sync_directory
from ..errors import AuditError, LimitExceeded
from . import kernel
from .protocol import RecordRef
from .syncing import Syncer

_DIRECTORY_MODE: Final = 0o750
_FILE_MODE: Final = 0o640


class Segments:
    """The segments of one audit directory. Only the last is written to."""

    def __init__(self, directory: pathlib.Path, group: int, segment_bytes: int = 0) -> None:
        """Open the last segment, or make the first. segment_bytes: the least size at which another may be begun.

        Raises AuditError.
        """
        self._directory = directory
        self._group = group
        self._segment_bytes = segment_bytes
        self._readers: dict[int, int] = {}
        self._syncers: dict[int, Syncer] = {}
        #: The segments before this one are on disk.
        self.settled = 0
        try:
            directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
            os.chown(directory, 0, group)
            directory.chmod(_DIRECTORY_MODE)
            present = directory.glob("segment-*.jsonl")
            self.number = max((int(path.stem.partition("-")[2]) for path in present), default=0)
            self._writer = self._open(self.number)
        except (OSError, ValueError) as error:
            raise AuditError(f"the audit directory can't be used: {error}", value=directory) from error

    @property
    def writer(self) -> int:
        """Descriptor for the front: write only, append only."""
        return self._writer

    def begin_next(self) -> int:
        """Begin another segment and return its number; `writer` is then its own. Raises AuditError, LimitExceeded."""
        size = os.fstat(self._writer).st_size
        if size < self._segment_bytes:
            raise LimitExceeded(
                "the segment is not full", value=f"{size} bytes", limit=f"audit.segment_bytes = {self._segment_bytes}"
            )
        try:
            writer = self._open(self.number + 1)
        except OSError as error:
            raise AuditError(f"no further audit segment can be made: {error}", value=self.number + 1) from error
        os.close(self._writer)
        self._writer, self.number = writer, self.number + 1
        return self.number

    def read(self, number: int, offset: int, length: int) -> bytes:
        """At most so many bytes of a segment. Raises AuditError, OSError."""
        return os.pread(self._reader(number), length, offset)

    def lines(self, number: int) -> Iterator[bytes]:
        """All complete lines of a segment, without their newline. Raises OSError."""
        with self.path(number).open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line[:-1]

    def size(self, number: int) -> int:
        """Bytes of a segment, 0 for one that is not there. Raises OSError."""
        return os.fstat(self._reader(number)).st_size if number <= self.number else 0

    def end(self, number: int) -> None:
        """Make a segment immutable, where the file system can: the next has begun."""
        kernel.set_immutable(self._reader(number), True)

    def path(self, number: int) -> pathlib.Path:
        """Path of a segment."""
        return self._directory / f"segment-{number:06d}.jsonl"

    def line(self, number: int, offset: int, length: int) -> bytes:
        """The whole line of `length` bytes at `offset`, without its newline.

        Raises AuditError when there is no such line or when it is only a part of one.
        """
        try:
            reader = self._reader(number)
            start = offset - 1 if offset else 0
            # With the byte before and the newline after: both must be line ends.
            found = os.pread(reader, length + 1 + (offset - start), start)
        except OSError as error:
            raise AuditError(f"the audit segment can't be read: {error}", value=number) from error
        before, line, after = found[: offset - start], found[offset - start : -1], found[-1:]
        if len(line) != length or before not in (b"", b"\n") or after != b"\n" or b"\n" in line:
            raise AuditError("no record lies there", value=f"segment {number}, offset {offset}, length {length}")
        return line

    async def durable(self, ref: RecordRef) -> None:
        """Return when the record is on disk, whatever the front says of it. Raises AuditError."""
        try:
            if ref.offset + ref.length >= self.size(ref.segment):
                raise AuditError("no record lies there", value=f"segment {ref.segment}, offset {ref.offset}")
        except OSError as error:
            raise AuditError(f"the audit segment can't be read: {error}", value=ref.segment) from error
        if ref.segment > self.settled:  # the chain must not go on from a record that a power cut can take
            await self.synced(ref.segment - 1, self.size(ref.segment - 1))
        await self.synced(ref.segment, ref.offset + ref.length + 1)

    async def synced(self, number: int, position: int) -> None:
        """Return when the first `position` bytes of a segment are on disk. Raises AuditError, OSError."""
        if number not in self._syncers:
            self._syncers[number] = Syncer(self._reader(number), "audit segment")
        await self._syncers[number].durable(position)

    async def settle(self, number: int) -> None:
        """Return when a segment that has ended is on disk, and let go of it. Raises AuditError, OSError."""
        await self.synced(number, self.size(number))
        self.settled = max(self.settled, number + 1)
        self._syncers.pop(number).close()
        os.close(self._readers.pop(number))

    def close(self) -> None:
        """Close all descriptors."""
        for syncer in self._syncers.values():
            syncer.close()
        self._syncers.clear()
        for descriptor in (self._writer, *self._readers.values()):
            os.close(descriptor)
        self._readers.clear()

    def _open(self, number: int) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        writer = os.open(self.path(number), flags, _FILE_MODE)
        if os.fstat(writer).st_gid != self._group:
            os.fchmod(writer, _FILE_MODE)
            os.fchown(writer, 0, self._group)  # last: who finds it so finds the mode as well
        sync_directory(self._directory)
        self.append_only = kernel.set_append_only(writer, True)
        return writer

    def _reader(self, number: int) -> int:
        if number > self.number:
            raise AuditError("there is no such audit segment", value=number, limit=self.number)
        reader = self._readers.get(number)
        if reader is None:
            opened = os.open(self.path(number), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            reader = self._readers.setdefault(number, opened)
            if reader != opened:  # who follows the log, in a thread, was first
                os.close(opened)
        return reader
