"""Trees on this host: packed for an upload, and unpacked from a download as if an enemy had made the archive.

Every name is opened component by component from the target's descriptor, and no link is followed, so that neither a
name nor a link that came before leads out. Links that leave, devices and what a host would run by itself are left out
and reported. Nor does the host take as much as the archive says that there is: files with holes, or with many names,
make a large archive of a small sandbox.
"""

import contextlib
import errno
import os
import pathlib
import stat
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO, Final, cast

from opensafe.errors import BadArchive, InvalidArgument, LimitExceeded
from opensafe.model.files import DOWNLOAD_BYTES, MAX_TREE_ENTRIES

from ._auto_run import GIT_MAX as _GIT_MAX
from ._auto_run import git_config_starts, is_auto_run, is_auto_run_link, may_be_git_config
from ._files import Left, LeftOut

_CHUNK: Final = 256 * 1024
_REPORTED: Final = 1000
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: In the place of another type, or of a directory that is not empty.
_TAKEN: Final = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENOTEMPTY)
#: A member's header and all that extends it, maps of holes too, which is read into memory whole: names are no longer.
_HEADER_MAX: Final = 1 << 20


class _Source:
    """An archive as tarfile reads it: onwards, to its end, and at once no more than was granted.

    tarfile asks on behind the end, as often as a member claims to be large, and takes a header's extensions whole.
    """

    def __init__(self, archive: BinaryIO) -> None:
        self._archive = archive
        self._at = 0
        self._last = b""
        self.granted = _HEADER_MAX

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> None:
        if to < self._at:
            raise tarfile.StreamError("it leads back")
        while self._at < to:
            if not self._take(min(_CHUNK, to - self._at)):
                raise EOFError("it ends within a member")

    def read(self, size: int) -> bytes:
        if size > self.granted:
            raise BadArchive(
                "an extended header is too large", value=f"{size} bytes more", limit=f"{_HEADER_MAX} bytes"
            )
        self.granted -= size
        return self._take(size)

    def check_end(self) -> None:
        """Raises BadArchive where tarfile took for the end what is neither a block of zeros nor the stream's end."""
        if self._last.strip(b"\0"):
            raise BadArchive("a header in the archive is damaged", value=f"before byte {self._at}")

    def _take(self, size: int) -> bytes:
        self._last = self._archive.read(size)
        self._at += len(self._last)
        return self._last


class _Unpacking:
    def __init__(self, root: int, *, with_auto_run: bool, size_limit: int) -> None:
        self._root = root
        self._with_auto_run = with_auto_run
        self._size_limit = size_limit
        self._size = self._entries = self._made = 0
        self._left: list[LeftOut] = []
        self._count = 0
        self._settle: list[tuple[bytes, int, int]] = []

    def left(self) -> Left:
        return Left(items=tuple(self._left), count=self._count)

    def member(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._admit(member.size)
        path = _clean(os.fsencode(member.name))
        if not path:
            return
        runs = is_auto_run_link if member.issym() else is_auto_run
        if not self._with_auto_run and runs(path):
            self._omit(path, "auto-run")
        elif member.isdir():
            self._guarded(path, lambda: self._directory(path, member))
        elif member.issym():
            self._guarded(path, lambda: self._symlink(path, member))
        elif member.isreg() and not member.issparse():
            content = archive.extractfile(member)
            assert content is not None  # noqa: S101 - it is of every regular file
            self._guarded(path, lambda: self._file(path, member, content))
        else:
            self._omit(path, "special")

    def settle(self) -> None:
        """Give directories their modes and times, the deepest first: until now their content was made."""
        for path, mode, mtime in reversed(self._settle):
            with contextlib.suppress(OSError):  # somebody took it away meanwhile
                fd = self._open(path.split(b"/"), make=False)
                try:
                    os.fchmod(fd, mode)
                    os.utime(fd, (mtime, mtime))
                finally:
                    os.close(fd)

    def _admit(self, size: int) -> None:
        if size < 0:  # it would make room for others
            raise BadArchive("a member's size is negative", value=size)
        self._size += size
        self._entries += 1
        if self._size > self._size_limit:
            raise LimitExceeded(
                "the tree is larger than what is taken of one",
                value=f"{self._size} bytes or more",
                limit=f"{self._size_limit} bytes",
                remedy="Look at what makes it large, then say a larger size_limit (--size-limit).",
            )
        _bound_entries(self._entries)

    def _guarded(self, path: bytes, make: Callable[[], None]) -> None:
        """What one member meets is its own; a full disk is everybody's."""
        try:
            make()
        except OSError as error:
            if error.errno in _TAKEN:
                self._omit(path, "exists")
            elif error.errno in (errno.EACCES, errno.EPERM):
                self._omit(path, "denied")
            elif error.errno == errno.ENAMETOOLONG:
                self._omit(path, "deep")
            else:
                raise

    def _directory(self, path: bytes, member: tarfile.TarInfo) -> None:
        os.close(self._open(path.split(b"/"), make=True))
        self._settle.append((path, member.mode & 0o777, int(member.mtime)))

    def _symlink(self, path: bytes, member: tarfile.TarInfo) -> None:
        target = os.fsencode(member.linkname)
        if not _stays(path.count(b"/"), target):
            self._omit(path, "link")
            return
        with self._parent(path) as (parent, name):
            _make_way(parent, name)
            os.symlink(target, name, dir_fd=parent)
            os.utime(name, (member.mtime, member.mtime), dir_fd=parent, follow_symlinks=False)

    def _file(self, path: bytes, member: tarfile.TarInfo, content: IO[bytes]) -> None:
        head = b""
        if not self._with_auto_run and may_be_git_config(path):
            head = content.read(_GIT_MAX + 1)
            if git_config_starts(head):
                self._omit(path, "auto-run")
                return
        with self._parent(path) as (parent, name):
            _make_way(parent, name)
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent)
            with os.fdopen(fd, "wb", buffering=0) as file:
                _write(file.fileno(), head)
                while data := content.read(_CHUNK):
                    _write(fd, data)
                os.fchmod(fd, member.mode & 0o777)
                os.utime(fd, (member.mtime, member.mtime))

    def _parent(self, path: bytes) -> "_Parent":
        *above, name = path.split(b"/")
        return _Parent(self._open(above, make=True), name)

    def _open(self, parts: list[bytes], *, make: bool) -> int:
        fd = os.dup(self._root)
        for part in parts:
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=fd)
                        self._made += 1
                        _bound_entries(self._made)  # one name can be the way to thousands
                inner = os.open(part, _DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        return fd

    def _omit(self, path: bytes, reason: str) -> None:
        self._count += 1
        if self._count <= _REPORTED:
            self._left.append(LeftOut(path=path, reason=reason))


class _Parent:
    """A directory's descriptor for the time of a `with`, and the name in it."""

    def __init__(self, fd: int, name: bytes) -> None:
        self._fd, self._name = fd, name

    def __enter__(self) -> tuple[int, bytes]:
        return self._fd, self._name

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def auto_run(path: bytes, content: pathlib.Path) -> bool:
    """Whether a host would run, by itself, what lies at `path` with this content."""
    if is_auto_run(path):
        return True
    with content.open("rb") as file:
        return may_be_git_config(path) and git_config_starts(file.read(_GIT_MAX + 1))


def unpack(archive: BinaryIO, target: str, *, with_auto_run: bool, size_limit: int = DOWNLOAD_BYTES) -> Left:
    """Unpack a tar stream into the directory `target`, which is made where it is missing; what was left out.

    Raises BadArchive where it is malformed, incomplete or has names that lead out, LimitExceeded where there is more of
    it than `size_limit` bytes or 100,000 entries (what came before is there), and InvalidArgument where the host can't
    hold it.
    """
    try:
        source = _Source(archive)
        with tarfile.TarFile(fileobj=cast(BinaryIO, source), errorlevel=2) as tar:
            os.makedirs(target, exist_ok=True)  # not before: where nothing came, nothing is made
            root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                unpacking = _Unpacking(root, with_auto_run=with_auto_run, size_limit=size_limit)
                for member in _members(tar, source):
                    unpacking.member(tar, member)
                unpacking.settle()
                return unpacking.left()
            finally:
                os.close(root)
    except (tarfile.TarError, ValueError, OverflowError, EOFError, IndexError, RecursionError) as error:
        raise BadArchive(f"the archive is malformed: {error}", value=target) from error
    except OSError as error:
        raise InvalidArgument(f"it can't be unpacked here: {error.strerror}", value=error.filename or target) from error


def _members(tar: tarfile.TarFile, source: _Source) -> Iterator[tarfile.TarInfo]:
    """One after the other. Of those that are past nothing is kept, nor of what is said of all that follow."""
    while member := tar.next():
        source.granted = member.size
        yield member
        tar.members.clear()  # type: ignore[attr-defined]  # typeshed lacks it
        tar.pax_headers = {}
        source.granted = _HEADER_MAX
    source.check_end()


def pack(source: str, into: BinaryIO) -> Left:
    """Write a directory's content as a tar stream: files, directories and links, no link followed; what was left out.

    Raises InvalidArgument where `source` is no directory that can be read.
    """
    left: list[LeftOut] = []
    try:
        with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT, dereference=False) as tar:
            for path, name in _walk(os.fsencode(source)):
                _add(tar, path, name, left)
    except BrokenPipeError:
        pass  # whoever read it has all it needs, or says why not
    except OSError as error:
        raise InvalidArgument(f"it can't be read: {error.strerror}", value=error.filename or source) from error
    return Left(items=tuple(left[:_REPORTED]), count=len(left))


def _walk(root: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every path below `root`, a directory right before what lies in it, with its name relative to `root`."""
    waiting = [(root, b"")]
    while waiting:
        directory, name = waiting.pop()
        if name:
            yield directory, name
        if stat.S_ISDIR(os.lstat(directory).st_mode):
            below = sorted(os.listdir(directory), reverse=True)
            waiting += [(os.path.join(directory, entry), os.path.join(name, entry)) for entry in below]


def _add(tar: tarfile.TarFile, path: bytes, name: bytes, left: list[LeftOut]) -> None:
    info = tar.gettarinfo(os.fsdecode(path), os.fsdecode(name))
    if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        left.append(LeftOut(path=name, reason="special"))
        return
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if not info.isreg():
        tar.addfile(info)
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        left.append(LeftOut(path=name, reason="unreadable"))
        return
    with os.fdopen(fd, "rb") as file:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            tar.addfile(info, file)


def _clean(path: bytes) -> bytes:
    """A member's path without empty components and ".". Raises BadArchive where it leads out."""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if path.startswith(b"/") or b".." in parts or b"\0" in path:
        raise BadArchive("a name in the archive leads out", value=os.fsdecode(path))
    return b"/".join(parts)


def _stays(depth: int, target: bytes) -> bool:
    """Whether a symlink that lies `depth` directories deep points to something below the root, wherever others lead.

    What is above the link is a directory, so `..` counts; behind a name it does not, for the name may be a link:
    with `s -> .`, `s/s/../..` leads out.
    """
    if not target or target.startswith(b"/"):
        return False
    above, named = 0, False
    for part in target.split(b"/"):
        if part == b"..":
            above += 1
            if named or above > depth:
                return False
        elif part not in (b"", b"."):
            named = True
    return True


def _bound_entries(count: int) -> None:
    if count > MAX_TREE_ENTRIES:
        raise LimitExceeded("the tree has more entries than are taken", value=count, limit=MAX_TREE_ENTRIES)


def _make_way(parent: int, name: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
