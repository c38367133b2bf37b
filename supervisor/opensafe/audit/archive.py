"""The archive of an evidence bundle: gzip around the plainest tar, the same bytes for the same content.

Written with fixed names, no times and no owners. Read as what a stranger sent: a header is 512 bytes and says a name
of the list, regular file and size; extended headers, links, devices, directories and paths are no such header. What is
unpacked lies in a directory made for it, and stays below a cap that holds for names, sizes and sum.
"""

import contextlib
import gzip
import hashlib
import os
import pathlib
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, Self

import msgspec

from opensafe.errors import AuditError

#: Of all members together, unpacked, and how many there may be.
MAX_BYTES: Final = 4 << 30
MAX_MEMBERS: Final = 4096
_NAME: Final = re.compile(
    r"manifest\.json|audit/(?:checkpoint|key\.pub|segment-[0-9]{6}\.jsonl)|(?:ledger|records|proofs|traces)\.jsonl"
    r"|bundles/[0-9a-f]{64}\.tar\.gz|keys/[0-9a-f]{64}\.pub"
)
_BLOCK: Final = 512
_CHUNK: Final = 1 << 20


class Readable(Protocol):
    """What is read from, of a file."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; b"" at the end."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be packed: the first `size` bytes of `path`."""

    name: str
    path: pathlib.Path
    size: int


class File(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest says of a member. sha256: hexadecimal."""

    size: int
    sha256: str


class Writer:
    """Packs members into `output`, which is complete when the context ends without error, and else not there."""

    def __init__(self, output: pathlib.Path, most_bytes: int | None = None) -> None:
        self._output = output
        self._most_bytes = MAX_BYTES if most_bytes is None else most_bytes
        self._fresh = output.with_name(f".{output.name}.new")
        self._stack = contextlib.ExitStack()
        self._size = 0
        self.files: dict[str, File] = {}

    def __enter__(self) -> Self:
        """Raises OSError."""
        self._fresh.unlink(missing_ok=True)
        descriptor = os.open(self._fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        plain = self._stack.enter_context(os.fdopen(descriptor, "wb"))
        packed = self._stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0))
        self._tar = self._stack.enter_context(tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stack.close()
        if kind is None:
            self._fresh.rename(self._output)
        else:
            self._fresh.unlink(missing_ok=True)

    def add(self, member: Member) -> None:
        """Pack one. Raises AuditError beyond the cap, OSError."""
        self._size += member.size
        if self._size > self._most_bytes:
            raise AuditError(
                "the evidence is larger than a bundle may be",
                value=self._size,
                limit=f"{self._most_bytes} bytes",
                remedy="Export one session or call, or keep a copy of the state directory.",
            )
        entry = tarfile.TarInfo(member.name)
        entry.size, entry.mode = member.size, 0o644
        with member.path.open("rb") as file:
            hashing = _Hashing(file)
            self._tar.addfile(entry, hashing)  # type: ignore[arg-type]  # it reads, and asks no more
        self.files[member.name] = File(size=member.size, sha256=hashing.digest.hexdigest())


class _Hashing:
    def __init__(self, file: Readable) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """As of a file."""
        data = self._file.read(size)
        self.digest.update(data)
        return data


@contextlib.contextmanager
def unpacked(path: pathlib.Path) -> Iterator[tuple[pathlib.Path, dict[str, File]]]:
    """The members in a directory of their own for as long as the context lasts, and what they are.

    Raises AuditError for what is no such archive.
    """
    with tempfile.TemporaryDirectory(prefix="opensafe-evidence-") as name:
        directory = pathlib.Path(name)
        try:
            with gzip.open(path) as file:
                found = dict(_unpack(_members(file), directory))
        except (OSError, EOFError, zlib.error) as error:
            raise AuditError(f"the evidence can't be read: {error}", value=path) from error
        yield directory, found


def _unpack(members: Iterable[tuple[str, int, Readable]], directory: pathlib.Path) -> Iterator[tuple[str, File]]:
    seen: set[str] = set()
    total = 0
    for name, size, file in members:
        total += size
        if not _NAME.fullmatch(name):
            raise _refused("a member is no part of evidence", name)
        if name in seen:
            raise _refused("a member stands there twice", name)
        seen.add(name)
        if len(seen) > MAX_MEMBERS or total > MAX_BYTES:
            raise _refused(f"there is more than {MAX_MEMBERS} members or {MAX_BYTES} bytes", name)
        target = directory / name
        target.parent.mkdir(exist_ok=True)
        digest = hashlib.sha256()
        with target.open("xb") as out:
            for data in _read(file, size):
                digest.update(data)
                out.write(data)
        yield name, File(size=size, sha256=digest.hexdigest())


def _members(file: Readable) -> Iterator[tuple[str, int, Readable]]:
    """Name, size and the file to read them from, which must be done before the next."""
    while any(header := b"".join(_read(file, _BLOCK))):
        name, size = _header(header)
        yield name, size, file
        if any(b"".join(_read(file, -size % _BLOCK))):
            raise _refused("something lies between the members", name)
    for _ in range(2 * tarfile.RECORDSIZE // _BLOCK):
        rest = file.read(_BLOCK)
        if not rest:
            return
        if any(rest):
            break
    raise _refused("something lies behind the end", "")


def _header(header: bytes) -> tuple[str, int]:
    """POSIX.1-1988 (ustar), a regular file without prefix, owner and link."""
    name, _, rest = header[:100].partition(b"\0")
    try:
        size, told = _octal(header[124:136]), _octal(header[148:156])
    except ValueError:
        raise _refused("a header is damaged", repr(name)) from None
    if told != sum(header[:148]) + 8 * 0x20 + sum(header[156:]):
        raise _refused("a header's checksum does not hold", repr(name))
    if header[156:157] != b"0" or header[257:265] != b"ustar\x0000" or any(header[157:257]) or any(header[345:500]):
        raise _refused("a member is no plain file", repr(name))
    if any(rest) or not name.isascii():
        raise _refused("a member's name is none", repr(name))
    return name.decode(), size


def _octal(field: bytes) -> int:
    return int(field.rstrip(b"\0 ").decode("ascii") or "x", 8)


def _read(file: Readable, size: int) -> Iterator[bytes]:
    while size > 0:
        data = file.read(min(size, _CHUNK))
        if not data:
            raise _refused("it is cut short", "")
        size -= len(data)
        yield data


def _refused(why: str, value: str) -> AuditError:
    return AuditError(f"the evidence is refused: {why}", value=value)
