"""What stands beside an image's tree, and the two digests that tell whether the tree is still the one that was built.

IMAGES/NAME/ holds `rootfs/` and `manifest.json`. The tree's digest reads every file and is the image's identity; the
digest of what stat(2) tells costs a look at each entry, and is what a start of the daemon can afford.
"""

import hashlib
import os
import pathlib
import stat
from collections.abc import Iterator
from typing import Final

import msgspec

SCHEMA: Final = "opensafe.image/1"
FILE: Final = "manifest.json"
_MAX: Final = 4 << 20


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """digest: `sha256:` and `tree_digest`. stat: `stat_digest`. source: what it was built from, in words.

    recipe: a mark of whoever had it built. left_out: device nodes, pipes and sockets that are not in it.
    """

    digest: str
    stat: str = ""
    schema: str = SCHEMA
    name: str = ""
    source: str = ""
    created: str = ""
    recipe: str = ""
    left_out: int = 0
    packages: dict[str, str] = {}


def read(image: pathlib.Path) -> Manifest:
    """The manifest of the image in this directory. Raises OSError, msgspec.DecodeError."""
    with (image / FILE).open("rb") as file:
        return msgspec.json.decode(file.read(_MAX), type=Manifest)


def tree_digest(root: pathlib.Path) -> str:
    """SHA-256 over the tree, hex.

    One line per entry in byte order of its path: path, type and mode in octal, owner, group, then for a file the
    SHA-256 of its content and for a symbolic link its target; fields end with NUL, lines with a newline. Times
    are left out: they say when, not what.
    """
    total = hashlib.sha256()
    for path, name, status in _entries(root):
        content = b""
        if stat.S_ISREG(status.st_mode):
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest().encode()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        fields = (name, b"%o" % status.st_mode, b"%d" % status.st_uid, b"%d" % status.st_gid, content)
        total.update(b"\0".join(fields) + b"\0\n")
    return total.hexdigest()


def stat_digest(root: pathlib.Path) -> str:
    """SHA-256 over what lstat tells of the tree, hex, without reading. Times and sizes of directories don't count."""
    total = hashlib.sha256()
    for _, name, status in _entries(root):
        numbers = [status.st_mode, status.st_uid, status.st_gid]
        if not stat.S_ISDIR(status.st_mode):
            numbers += [status.st_size, status.st_mtime_ns]
        total.update(b"\0".join((name, *(b"%d" % number for number in numbers))) + b"\0\n")
    return total.hexdigest()


def _entries(root: pathlib.Path) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
    """Path, path below the root and status of each entry, in byte order of the paths."""
    base = os.fsencode(root)
    found: list[bytes] = []
    for directory, names, files in os.walk(base):
        found.extend(os.path.join(directory, name) for name in (*names, *files))
    for path in sorted(found):
        yield path, path[len(base) + 1 :], os.lstat(path)
