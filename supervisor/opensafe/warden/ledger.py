"""The warden's own record of what it started, and on which decision: a hash chain that root alone can write.

It is held against the audit log: an execution without a decision, or a decision used twice, shows. An entry is
on disk before what it records begins. Concurrent entries share one fdatasync.
"""

import logging
import os
import pathlib
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from ..errors import AuditError
from ..model.canonical import NotCanonicalError
from ..model.chain import ChainBrokenError, Head, seal, verify
from .syncing import Syncer

_log = logging.getLogger(__name__)

_CHUNK: Final = 1 << 20

#: Entries that can be under way at once: requests of one peer (protocol.py), of which each makes one.
_UNDER_WAY: Final = 4096

Kind = Literal["sandbox", "start", "end", "pool", "claim", "void"]


class Entry(msgspec.Struct, frozen=True):
    """What an entry says was to be started, and on which decision."""

    kind: str = ""
    leaf: str = ""
    sandbox_id: str = ""
    exec_id: str = ""
    index: int = 0


class Ledger:
    """An open ledger. `used` are the leaves of all decisions that were spent."""

    def __init__(self, path: pathlib.Path, group: int | None = None) -> None:
        """Open, verify and continue. group: may read it. Raises AuditError when the chain is broken."""
        self.used: set[bytes] = set()
        #: Of an earlier run: the last entries of what was to be started that have no end on record.
        self.unended: tuple[Entry, ...] = ()
        self._head = Head()
        self._broken = False
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if group is not None:
                os.fchown(self._file, 0, group)
            os.fchmod(self._file, 0o600 if group is None else 0o640)
            self._size = self._recover()
        except (OSError, ChainBrokenError) as error:
            raise AuditError(f"the ledger can't be used: {error}", value=path) from error
        self._syncer = Syncer(self._file, "ledger")

    @property
    def size(self) -> int:
        """Number of entries."""
        return self._head.size

    @property
    def head(self) -> Head:
        """Where the chain ends."""
        return self._head

    @property
    def end(self) -> int:
        """The position behind the last entry, for `durable`."""
        return self._size

    def require(self) -> None:
        """Raise AuditError where no further entry can be written."""
        if self._broken or self._syncer.failed:
            raise AuditError("the ledger is broken: an entry could not be written", remedy="Restart the daemon.")

    def append(
        self,
        kind: Kind,
        *,
        sandbox_id: str,
        exec_id: str = "",
        leaf: str = "",
        subject: str = "",
        cell: str = "",
    ) -> int:
        """Write one entry; the position to hand to `durable`. Raises AuditError: then nothing may be started.

        A `pool` entry stands for a sandbox made before anybody asked, and the program that warmed it; the `claim` entry
        says under which id such a `cell` was handed out; a `void` entry that nothing was started on the decision.
        """
        entry: dict[str, Any] = {
            "exec_id": exec_id, "kind": kind, "leaf": leaf, "sandbox_id": sandbox_id, "subject": subject,
            # Microseconds: nanoseconds would not fit the 53 bits of a canonical integer.
            "unix_us": time.time_ns() // 1000,
        } | ({"cell": cell} if cell else {})  # fmt: skip
        self.require()
        try:
            sealed = seal(self._head, entry)
            line = sealed.line + b"\n"
            written = os.write(self._file, line)
            if written != len(line):
                os.ftruncate(self._file, self._size)
                raise AuditError("the ledger's entry was not written whole", value=f"{written} of {len(line)} bytes")
        except (OSError, NotCanonicalError) as error:
            self._broken = isinstance(error, OSError)
            raise AuditError(f"the ledger can't be written: {error}", remedy="Make room, then restart.") from error
        self._head = sealed.head
        self._size += len(line)
        if leaf:
            self.used.add(bytes.fromhex(leaf))
        return self._size

    async def durable(self, position: int) -> None:
        """Return when all up to `position` is on disk. Raises AuditError."""
        await self._syncer.durable(position)

    def close(self) -> None:
        """Close the file."""
        self._syncer.close()
        os.close(self._file)

    def _recover(self) -> int:
        """Verify the chain, collect what was used, cut a torn tail; the size in bytes."""
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for line in _lines(_chunks(self._file)):
                yield line
                size += len(line) + 1

        begun: dict[str, Entry] = {}
        for link in verify(counted()):
            entry = msgspec.convert(link.record, Entry)
            if entry.leaf:
                self.used.add(bytes.fromhex(entry.leaf))
            what = entry.exec_id or entry.sandbox_id
            if entry.kind in ("sandbox", "start"):
                begun[what] = entry
                if len(begun) > _UNDER_WAY:
                    del begun[next(iter(begun))]
            elif entry.kind in ("end", "void"):
                begun.pop(what, None)
            self._head = Head(link.index + 1, link.leaf)
        self.unended = tuple(begun.values())
        torn = os.fstat(self._file).st_size - size
        if torn:
            # An entry is on disk whole before anything is started, so a torn one stands for nothing.
            _log.warning("the ledger ends in a torn entry of %d bytes, which is cut", torn)
            os.ftruncate(self._file, size)
        return size


def _chunks(file: int) -> Iterator[bytes]:
    offset = 0
    while chunk := os.pread(file, _CHUNK, offset):
        offset += len(chunk)
        yield chunk


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
