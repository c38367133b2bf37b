"""What the guest's file helper prints, read as a stranger's bytes: fixed records, typed, and nothing else.

The helper is ours, but the guest it runs in is not to be believed. A record that is not exactly one ends the call with
FileFailed; names that a path must not hold never get to a client.
"""

import re
from collections.abc import Iterator
from typing import Final

from opensafe import errors
from opensafe._proto.v1 import files_pb2

#: Longest record: PATH_MAX and what stands before it.
MAX_RECORD: Final = 4096 + 80
_ENTRY: Final = re.compile(rb"([fdlpscb]) (\d{1,19}) ([0-7]{4}) (-?\d{1,12})\.(\d{9}) ([^\0]+)", re.DOTALL)
_CHANGE: Final = re.compile(rb"([scdwmaftoxg]) (\d{1,10}) ([fdlpscb-]) ([^\0]*)", re.DOTALL)
_OMISSION: Final = re.compile(rb"(special|held|link|denied|unreadable|exists|deep|changed) ([^\0]{1,4095})", re.DOTALL)
_COUNT: Final = re.compile(r": (\d{1,12}) left out: ")
_TYPES: Final = {
    b"f": files_pb2.FILE_TYPE_REGULAR,
    b"d": files_pb2.FILE_TYPE_DIRECTORY,
    b"l": files_pb2.FILE_TYPE_SYMLINK,
    b"p": files_pb2.FILE_TYPE_FIFO,
    b"s": files_pb2.FILE_TYPE_SOCKET,
    b"c": files_pb2.FILE_TYPE_CHARACTER_DEVICE,
    b"b": files_pb2.FILE_TYPE_BLOCK_DEVICE,
}
_CHANGES: Final = {
    b"s": files_pb2.FILE_CHANGE_KIND_WATCHING,
    b"c": files_pb2.FILE_CHANGE_KIND_CREATED,
    b"d": files_pb2.FILE_CHANGE_KIND_DELETED,
    b"w": files_pb2.FILE_CHANGE_KIND_WRITTEN,
    b"m": files_pb2.FILE_CHANGE_KIND_MODIFIED,
    b"a": files_pb2.FILE_CHANGE_KIND_ATTRIBUTES,
    b"f": files_pb2.FILE_CHANGE_KIND_MOVED_FROM,
    b"t": files_pb2.FILE_CHANGE_KIND_MOVED_TO,
    b"o": files_pb2.FILE_CHANGE_KIND_OVERFLOW,
    b"x": files_pb2.FILE_CHANGE_KIND_NOT_WATCHED,
    b"g": files_pb2.FILE_CHANGE_KIND_GONE,
}
#: Exit status of native/guest/file -> error. 0 and PARTIAL are no failures.
PARTIAL: Final = 22
_FAILURES: Final[dict[int, type[errors.FileError]]] = {
    10: errors.FileNotFound,
    11: errors.FileOutside,
    12: errors.WrongFileType,
    13: errors.FileTooLarge,
    14: errors.NoSpace,
    15: errors.FileDenied,
    17: errors.ContentMismatch,
    18: errors.FileExists,
    19: errors.DirectoryNotEmpty,
    20: errors.OtherFileSystem,
    21: errors.BadArchive,
}


class Records:
    """Cuts a stream into its NUL-terminated records."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The records that `data` completes. Raises FileFailed where one is longer than any can be."""
        *whole, self._rest = (self._rest + data).split(b"\0")
        if len(self._rest) > MAX_RECORD:
            raise malformed(self._rest)
        yield from whole

    def end(self) -> None:
        """No more data. Raises FileFailed where it ended within a record."""
        if self._rest:
            raise malformed(self._rest)


def entry(record: bytes, *, whole_path: bool = False) -> files_pb2.FileInfo:
    """One name described. Its name is a single component unless `whole_path`, which leaves it out."""
    match = _ENTRY.fullmatch(record)
    if match is None:
        raise malformed(record)
    kind, size, mode, seconds, nanoseconds, name = match.groups()
    if not whole_path and (b"/" in name or name in (b".", b"..") or len(name) > 255):
        raise malformed(record)
    mtime_ns = int(seconds) * 10**9 + int(nanoseconds)
    if int(size) >= 2**63 or not -(2**63) <= mtime_ns < 2**63:
        raise malformed(record)
    return files_pb2.FileInfo(
        name=b"" if whole_path else name, type=_TYPES[kind], size=int(size), mode=int(mode, 8), mtime_unix_ns=mtime_ns
    )


def change(record: bytes) -> files_pb2.FileChange:
    """One event of a watch."""
    match = _CHANGE.fullmatch(record)
    if match is None or int(match[2]) >= 2**32 or not is_clean(match[4]):
        raise malformed(record)
    return files_pb2.FileChange(
        kind=_CHANGES[match[1]], cookie=int(match[2]), directory=match[3] == b"d", path=match[4]
    )


def left_out(stderr: bytes) -> files_pb2.TreeDone:
    """What a tree left out. `stderr` is its records and the line with their number."""
    *records, line = stderr.split(b"\0")
    found = []
    for record in records[:1000]:
        match = _OMISSION.fullmatch(record)
        if match is None:
            raise malformed(record)
        found.append(files_pb2.LeftOut(reason=match[1].decode(), path=match[2]))
    counted = _COUNT.search(line.decode("utf-8", "replace"))
    return files_pb2.TreeDone(left_out=found, left_out_count=max(int(counted[1]) if counted else 0, len(found)))


def failure(status: int, stderr: bytes, path: str) -> errors.FileError:
    """The error that an exit status of the helper means."""
    line = stderr.rpartition(b"\0")[2].decode("utf-8", "replace").strip()
    kind = _FAILURES.get(status, errors.FileFailed)
    doc = (kind.__doc__ or "").partition(".")[0]
    return kind(f"{doc} ({printable(line)[:200]})" if line else doc, value=path)


def is_clean(path: bytes) -> bool:
    """Whether a path from the guest stays below what it is relative to."""
    return not path.startswith(b"/") and b".." not in path.split(b"/")


def printable(text: str) -> str:
    """Text of the guest's without what steers terminals."""
    return "".join(char if char.isprintable() else "?" for char in text)


def malformed(record: bytes) -> errors.FileFailed:
    """For an answer that is none."""
    return errors.FileFailed(
        "the guest's answer is malformed", value=printable(record[:80].decode("utf-8", "replace")),
        remedy="Make another sandbox: this one does not run our programs as they are.",
    )  # fmt: skip
