"""The audit log's files, made by root so that the front can add to them and nothing else.

The front gets a write-only append descriptor and a file it may read. Another process's O_APPEND is only a flag
that its holder can clear, so the inode gets the append-only attribute where the file system has one; `append_only`
says whether it does. A torn last line is left as it is: the front states it.
"""

import os
import pathlib
from typing import Final

from ..errors import AuditError
from . import kernel
from .protocol import RecordRef
from .syncing import Syncer

_DIRECTORY_MODE: Final = 0o750
_FILE_MODE: Final = 0o640


class Segments:
    """The segments of one audit directory. Only the last is written to."""

    def __init__(self, directory: pathlib.Path, group: int) -> None:
        """Open the last segment, or make the first. Raises AuditError."""
        self._directory = directory
        self._readers: dict[int, int] = {}
        self._syncers: dict[int, Syncer] = {}
        try:
            directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
            os.chown(directory, 0, group)
            directory.chmod(_DIRECTORY_MODE)
            present = directory.glob("segment-*.jsonl")
            self.number = max((int(path.stem.partition("-")[2]) for path in present), default=0)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._writer = os.open(self.path(self.number), flags, _FILE_MODE)
        except (OSError, ValueError) as error:
            raise AuditError(f"the audit directory can't be used: {error}", value=directory) from error
        if os.fstat(self._writer).st_gid != group:
            os.fchown(self._writer, 0, group)
            os.fchmod(self._writer, _FILE_MODE)
        self.append_only = kernel.set_append_only(self._writer, True)

    @property
    def writer(self) -> int:
        """Descriptor for the front: write only, append only."""
        return self._writer

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
            reader = self._reader(ref.segment)
            if ref.offset + ref.length >= os.fstat(reader).st_size:
                raise AuditError("no record lies there", value=f"segment {ref.segment}, offset {ref.offset}")
        except OSError as error:
            raise AuditError(f"the audit segment can't be read: {error}", value=ref.segment) from error
        if ref.segment not in self._syncers:
            self._syncers[ref.segment] = Syncer(reader, "audit segment")
        await self._syncers[ref.segment].durable(ref.offset + ref.length + 1)

    def close(self) -> None:
        """Close all descriptors."""
        for descriptor in (self._writer, *self._readers.values()):
            os.close(descriptor)
        self._readers.clear()

    def _reader(self, number: int) -> int:
        if number > self.number:
            raise AuditError("there is no such audit segment", value=number, limit=self.number)
        if number not in self._readers:
            self._readers[number] = os.open(self.path(number), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        return self._readers[number]
