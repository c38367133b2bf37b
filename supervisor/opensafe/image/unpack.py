"""Unpacking an archive's entries into a tree that nothing in them can lead out of.

A name is walked component by component, each directory opened without following a link; what stands in the way of a
directory that an entry needs, a link included, refuses the image. Links are stored as text and never followed.
"""

import contextlib
import os
import pathlib
import shutil
import stat
import tarfile
from collections.abc import Iterator
from typing import Final

from opensafe.errors import InvalidArgument, LimitExceeded

_ENTRIES_MAX: Final = 1_000_000
_DEPTH_MAX: Final = 128
_NAME_MAX: Final = 255
_LINK_MAX: Final = 4095
_BYTES_MAX: Final = 16 << 30
_ID_MAX: Final = 0xFFFF_FFFE
_CHUNK: Final = 1 << 20
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HIDES: Final = ".wh."
_HIDES_ALL: Final = ".wh..wh..opq"


class Tree:
    """The tree that is being unpacked. left_out: entries that no image has, devices and the like."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self._entries = 0
        self._left = _BYTES_MAX
        self.left_out = 0

    def whiteout(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Remove what the entry hides of the layers below, if it is a whiteout (image-spec, layer)."""
        del archive
        parts = _parts(member.name)
        if not parts or not parts[-1].startswith(_HIDES):
            return
        hidden = parts[-1].removeprefix(_HIDES)
        if hidden in ("", ".", ".."):
            raise InvalidArgument("a whiteout hides no name", value=member.name)
        with contextlib.suppress(FileNotFoundError), self._parent(parts, make=False) as parent:
            if parts[-1] == _HIDES_ALL:
                for name in os.listdir(parent):
                    _remove(parent, name)
            else:
                _remove(parent, hidden)

    def entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Unpack one entry. Raises InvalidArgument, LimitExceeded."""
        self._entries += 1
        if self._entries > _ENTRIES_MAX:
            raise LimitExceeded("the image has too many entries", limit=_ENTRIES_MAX)
        parts = _parts(member.name)
        if not parts or parts[-1].startswith(_HIDES):
            return
        if not 0 <= member.uid <= _ID_MAX or not 0 <= member.gid <= _ID_MAX:
            raise InvalidArgument("an entry's owner is out of bounds", value=f"{member.name}: {member.uid}")
        with self._parent(parts, make=True) as parent:
            if member.isdir():
                _make_directory(parent, parts[-1], member)
            elif member.issym():
                _make_link(parent, parts[-1], member)
            elif member.islnk():
                self._link(parent, parts[-1], member)
            elif member.isreg():
                self._write(parent, parts[-1], archive, member)
            else:
                self.left_out += 1

    @contextlib.contextmanager
    def _parent(self, parts: list[str], *, make: bool) -> Iterator[int]:
        """The directory that holds the last part. Raises FileNotFoundError where it is not there and not to be made."""
        descriptor = os.open(self._root, _DIRECTORY)
        try:
            for part in parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=descriptor)
                try:
                    below = os.open(part, _DIRECTORY, dir_fd=descriptor)
                except FileNotFoundError:
                    raise
                except OSError as error:
                    raise InvalidArgument(
                        "an entry lies below what is no directory", value="/".join(parts), limit=part
                    ) from error
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def _link(self, parent: int, name: str, member: tarfile.TarInfo) -> None:
        target = _parts(member.linkname)
        if not target:
            raise InvalidArgument("a link has no target", value=member.name)
        try:
            with self._parent(target, make=False) as directory:
                status = os.stat(target[-1], dir_fd=directory, follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    raise InvalidArgument("a hard link's target is no file", value=member.linkname)
                _remove(parent, name)
                os.link(target[-1], name, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError as error:
            raise InvalidArgument("a hard link's target is not there", value=member.linkname) from error

    def _write(self, parent: int, name: str, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._left -= member.size
        if member.size < 0 or self._left < 0:
            raise LimitExceeded("the image unpacks to too much", limit=f"{_BYTES_MAX} bytes")
        content = archive.extractfile(member)
        if content is None:
            raise InvalidArgument("a file has no content", value=member.name)
        _remove(parent, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=parent), "wb") as file:
            shutil.copyfileobj(content, file, _CHUNK)
            file.flush()
            if file.tell() != member.size:
                raise InvalidArgument("a file is cut short", value=member.name)
            os.fchown(file.fileno(), member.uid, member.gid)
            os.fchmod(file.fileno(), member.mode & 0o1777)


def _parts(name: str) -> list[str]:
    """The components of an archive's name. Raises InvalidArgument for one that climbs, is too deep or too long."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise InvalidArgument("a name leads out of the image", value=name)
    if len(parts) > _DEPTH_MAX or any(len(os.fsencode(part)) > _NAME_MAX for part in parts):
        raise InvalidArgument("a name is too deep or too long", value=name, limit=f"{_DEPTH_MAX} parts of {_NAME_MAX}")
    return parts


def _make_directory(parent: int, name: str, member: tarfile.TarInfo) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            _remove(parent, name)
            os.mkdir(name, 0o700, dir_fd=parent)
    descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        os.fchown(descriptor, member.uid, member.gid)
        os.fchmod(descriptor, member.mode & 0o1777)
    finally:
        os.close(descriptor)


def _make_link(parent: int, name: str, member: tarfile.TarInfo) -> None:
    if not 0 < len(os.fsencode(member.linkname)) <= _LINK_MAX:
        raise InvalidArgument("a link's target is too long or none", value=member.name, limit=_LINK_MAX)
    _remove(parent, name)
    os.symlink(member.linkname, name, dir_fd=parent)
    os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)


def _remove(parent: int, name: str) -> None:
    """Whatever is there, or nothing. rmtree by descriptor follows no link."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)
