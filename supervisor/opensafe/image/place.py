"""Putting an image in its place: made beside it, made harmless, and moved in whole.

A sandbox never starts on half an image, and one that runs on the image before keeps its files: that tree is removed by
a later build, when no process has it as its root any more.
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from opensafe.errors import InvalidArgument

from . import manifest

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_OLD: Final = ".old-"
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
#: What a sandbox gets mounted has its place here already, or runsc would make it in the image at first use.
_DIRECTORIES: Final = (
    *(("proc", 0o555), ("dev", 0o755), ("dev/shm", 0o1777), ("tmp", 0o1777), ("etc", 0o755)),
    *((".opensafe", 0o755), ("workspace", 0o755)),
)
_EMPTY_FILES: Final = ("etc/hosts", "etc/resolv.conf")
_SET_ID: Final = stat.S_ISUID | stat.S_ISGID


class Staged:
    """An image that is being built: fill `rootfs`, then say what it is made from."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.rootfs = directory / "rootfs"
        self.source = ""
        self.recipe = ""
        self.left_out = 0
        self.packages: dict[str, str] = {}


@contextlib.contextmanager
def staged(images: pathlib.Path, name: str) -> Iterator[Staged]:
    """Yields a place to build; when the body is through, the image replaces the one of that name.

    Raises InvalidArgument for a name that no template can have, and for a tree that can't be a sandbox's root.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument("an image's name is a letter, then letters, digits or -", value=name, limit="32")
    images.mkdir(mode=0o755, parents=True, exist_ok=True)
    scratch = images / f".{name}-{secrets.token_hex(4)}"
    scratch.mkdir(mode=0o700)  # the tree has its own modes inside; only root walks in from the host
    try:
        image = Staged(scratch)
        image.rootfs.mkdir()
        yield image
        image.left_out += _harmless(image.rootfs)
        _prepare(image.rootfs)
        (scratch / manifest.FILE).write_bytes(msgspec.json.format(msgspec.json.encode(_described(image, name))) + b"\n")
        _exchange(scratch, images / name)
    finally:
        if scratch.exists():
            shutil.rmtree(scratch)
        _sweep(images)


def _described(image: Staged, name: str) -> manifest.Manifest:
    return manifest.Manifest(
        digest=f"sha256:{manifest.tree_digest(image.rootfs)}",
        stat=manifest.stat_digest(image.rootfs),
        name=name,
        source=image.source,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        recipe=image.recipe,
        left_out=image.left_out,
        packages=image.packages,
    )


def _harmless(rootfs: pathlib.Path) -> int:
    """No device, pipe or socket, no set-id bit, no file capability; returns how many entries went."""
    removed = 0
    rootfs.chmod(0o755)  # the guest's /
    for directory, names, files in os.walk(os.fsencode(rootfs)):
        for path in (os.path.join(directory, name) for name in (*names, *files)):
            mode = os.lstat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                os.unlink(path)
                removed += 1
            elif not stat.S_ISLNK(mode):
                for attribute in os.listxattr(path, follow_symlinks=False):
                    os.removexattr(path, attribute, follow_symlinks=False)
                if mode & _SET_ID:
                    os.chmod(path, stat.S_IMODE(mode) & ~_SET_ID)
    return removed


def _prepare(rootfs: pathlib.Path) -> None:
    for name, mode in _DIRECTORIES:
        path = rootfs / name
        if not os.path.lexists(path):
            path.mkdir()
            path.chmod(mode)
        elif not stat.S_ISDIR(path.lstat().st_mode):
            raise InvalidArgument(f"the image's /{name} is no directory, so nothing can be mounted there")
    for name in _EMPTY_FILES:
        (rootfs / name).unlink(missing_ok=True)
        (rootfs / name).touch(mode=0o644)


def _exchange(scratch: pathlib.Path, image: pathlib.Path) -> None:
    try:
        _rename(scratch, image, _RENAME_EXCHANGE)
    except FileNotFoundError:
        scratch.rename(image)
        return
    scratch.rename(scratch.with_name(f"{_OLD}{secrets.token_hex(8)}"))


def _rename(old: pathlib.Path, new: pathlib.Path, flags: int) -> None:
    """renameat2(2), which Python has no name for."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) < 0:
        code = ctypes.get_errno()
        raise FileNotFoundError(code, os.strerror(code)) if code == errno.ENOENT else OSError(code, os.strerror(code))


def replaced(images: pathlib.Path) -> Iterator[pathlib.Path]:
    """The directories of images that another has taken the name of. They stay while a sandbox runs on them."""
    return images.glob(f"{_OLD}*")


def _sweep(images: pathlib.Path) -> None:
    """Remove trees that were replaced and are nobody's root any more."""
    roots = set()
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                status = os.stat(f"/proc/{entry.name}/root")
                roots.add((status.st_dev, status.st_ino))
    for old in replaced(images):
        with contextlib.suppress(FileNotFoundError):
            status = (old / "rootfs").lstat()
            if (status.st_dev, status.st_ino) not in roots:
                shutil.rmtree(old)
