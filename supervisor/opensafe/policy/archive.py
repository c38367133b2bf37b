"""A bundle's archive: gzip around tar with an exact, flat list of regular files. Nothing is ever unpacked to disk.

Every size is bounded before anything is read into memory, and the tar's names are compared, never used as paths.
"""

import io
import os
import pathlib
import stat
import tarfile
import zlib
from typing import Final

from opensafe.errors import BundleRefused

MAX_PACKED: Final = 16 << 20
MAX_UNPACKED: Final = 64 << 20
_GZIP: Final = 16 + zlib.MAX_WBITS


def read_file(path: pathlib.Path) -> bytes:
    """The bytes of a bundle file, which must be a regular file itself (no symlink). Raises BundleRefused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise BundleRefused(
            f"open: {error.strerror}", value=path, remedy="Build one: python -m opensafe.policy.build."
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BundleRefused("open: not a regular file", value=path)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_PACKED + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_PACKED:
        raise BundleRefused("size: the bundle is too large", value=f"over {MAX_PACKED}", limit=f"{MAX_PACKED} bytes")
    return content


def unpack(content: bytes, allowed: frozenset[str]) -> dict[str, bytes]:
    """The members by name. Raises BundleRefused: size, compression, kind, name outside `allowed`, duplicate."""
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(_inflate(content)), mode="r:") as archive:
            for member in archive:
                if not member.isreg() or member.issparse():
                    raise BundleRefused("member: not a regular file", value=member.name)
                if member.name not in allowed:
                    raise BundleRefused("member: not a part of a bundle", value=member.name)
                if member.name in members:
                    raise BundleRefused("member: stands in the archive twice", value=member.name)
                file = archive.extractfile(member)
                if file is None:
                    raise BundleRefused("member: has no content", value=member.name)
                members[member.name] = file.read()
    except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
        raise BundleRefused(f"archive: {error}") from error
    return members


def pack(members: dict[str, bytes]) -> bytes:
    """The archive of `members`: the same bytes for the same content (sorted, no times, no owners)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(members):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(members[name]), 0o644
            archive.addfile(entry, io.BytesIO(members[name]))
    deflate = zlib.compressobj(6, zlib.DEFLATED, _GZIP)  # zlib writes a gzip header without name and time
    return deflate.compress(buffer.getvalue()) + deflate.flush()


def _inflate(content: bytes) -> bytes:
    if len(content) > MAX_PACKED:
        raise BundleRefused("size: the bundle is too large", value=len(content), limit=f"{MAX_PACKED} bytes")
    inflate = zlib.decompressobj(_GZIP)
    try:
        plain = inflate.decompress(content, MAX_UNPACKED + 1)
    except zlib.error as error:
        raise BundleRefused(f"compression: {error}") from error
    if len(plain) > MAX_UNPACKED:
        raise BundleRefused("size: the bundle unpacks to too much", limit=f"{MAX_UNPACKED} bytes")
    if not inflate.eof or inflate.unused_data:
        raise BundleRefused("compression: the bundle is cut short or has a tail")
    return plain
