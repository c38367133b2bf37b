"""F10: whatever an archive holds, what is unpacked lies below the target, is a file, a directory or a link that stays,
and is no more than came.

Reference: the tree itself as the kernel resolves it, and what lies beside the target before and after.
"""

import io
import os
import pathlib
import shutil
import stat
import tarfile
from typing import Final

from opensafe.client.trees import unpack
from opensafe.errors import BadArchive, InvalidArgument, LimitExceeded
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_NAMES: Final = (
    "a", "d", "d/a", "d/e/a", "s", "s/a", "l", "../secret", "/x", "d/../a", "./a", "a/",
    ".git/hooks/x", ".git/config",
    "d/.git/hooks/pre-commit", ".envrc", ".vscode/tasks.json", "..", "", "d//a", "\u00e9", "a" * 300, "d/s",
)  # fmt: skip
_TO: Final = (
    "a", ".", "..", "../secret", "d", "s/s/../../secret", "/etc/passwd", "d/../../secret", "../d/a", "s", "", "./../x",
    "d/e",
    "s/..", "../s/..",
)  # fmt: skip
_KINDS: Final = (
    tarfile.REGTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
    tarfile.FIFOTYPE,
    tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE,
)  # fmt: skip
_AUTO_RUN: Final = ("hooks", ".envrc", "tasks.json")
_CONTENT: Final = (b"", b"x", b"[core]\n\tfsmonitor = id\n", b"secret" * 40)
_SECRET: Final = b"not to be read"


def one(data: bytes) -> None:
    """Unpack an archive of drawn members, bytes of it changed perhaps, or the bytes as they are."""
    draw = Draw(data)
    what, with_auto_run = draw.number(0, 3), draw.flag()
    limit = draw.pick((1 << 20, 100))
    packed = draw.rest() if what == 3 else _archive(draw)
    if what == 2 and packed:
        at = draw.number(0, len(packed) - 1)
        packed = packed[:at] + draw.data(8) + packed[at + 8 :]
    room = pathlib.Path("room")
    shutil.rmtree(room, ignore_errors=True)
    target = room / "out"
    room.mkdir()
    (room / "secret").write_bytes(_SECRET)
    try:
        left = unpack(io.BytesIO(packed), str(target), with_auto_run=with_auto_run, size_limit=limit)
        holds(left.count >= len(left.items), "what was left out is counted", left)
    except (BadArchive, InvalidArgument, LimitExceeded):
        pass
    holds({path.name for path in room.iterdir()} <= {"secret", "out"}, "nothing is made beside the target")
    holds((room / "secret").read_bytes() == _SECRET, "nothing beside the target is changed")
    if target.exists():
        _tree(target, len(packed), limit, with_auto_run=with_auto_run)


def _tree(target: pathlib.Path, most: int, limit: int, *, with_auto_run: bool) -> None:
    root, total, entries = os.path.realpath(target), 0, 0
    for directory, names, files in os.walk(target):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            found = os.lstat(path)
            entries += 1
            kind = found.st_mode
            holds(stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind), "nothing special is made", path)
            holds(stat.S_ISLNK(kind) or not kind & 0o7000, "no set-id bit is kept", path)
            holds(found.st_nlink == 1 or stat.S_ISDIR(kind), "nothing is linked to what was there", path)
            if stat.S_ISLNK(kind):
                led = os.path.realpath(path)
                holds(led == root or led.startswith(f"{root}/"), "every link stays", (path, os.readlink(path)))
            elif stat.S_ISREG(kind):
                total += found.st_size
            hidden = with_auto_run or not any(part in _AUTO_RUN for part in pathlib.Path(path).parts)
            holds(hidden or stat.S_ISDIR(kind), "nothing is made that a host runs by itself", path)
    holds(total <= min(most, limit), "there are no more bytes than came, and than are taken", (total, most, limit))
    holds(entries <= most // 128, "there are no more entries than came", entries)


def _archive(draw: Draw) -> bytes:
    buffer = io.BytesIO()
    form = draw.pick((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for _ in range(draw.number(1, 5)):
            member = tarfile.TarInfo(draw.pick(_NAMES))
            member.type, member.mode = draw.pick(_KINDS), draw.pick((0o755, 0o6777, 0o700))
            member.linkname = draw.pick(_TO)
            content = draw.pick(_CONTENT) if member.type == tarfile.REGTYPE else b""
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def seeds() -> list[bytes]:
    """Archives of every kind of member, whole, changed and cut."""
    steps = [(at, step) for at in range(8) for step in (1, 3, 5, 11)]
    made = [
        bytes([place % 3, 0, place % 2, 0, *((at + step * byte) % 256 for byte in range(40))])
        for place, (at, step) in enumerate(steps)
    ]
    by_link = bytes([0, 0, 0, 0, 1, 4, 2, 0, 1, 6, 2, 0, 5])
    return [*made, by_link, b"\3\0\0" + _archive(Draw(bytes([0, 1, 0, 0, 0, 0, 1])))[:1024]]


_TREES: Final = "client/trees.py"
TARGET: Final = Target(
    id="F10",
    title="archives unpacked on the host",
    one=one,
    seeds=seeds,
    modules=("opensafe.client.trees", "opensafe.client._auto_run"),
    floor=60,
    runs=3000,
    longest=2048,
    mutants=(
        Mutant(
            id="F10-names", file=_TREES, old='if path.startswith(b"/") or b".." in parts or b"\\0" in path:',
            new='if path.startswith(b"/"):',
            says="a name may lead out",
        ),
        Mutant(
            id="F10-links", file=_TREES, old="            named = True", new="            depth += 1",
            says="a link may lead out by way of another",
        ),
        Mutant(
            id="F10-stays", file=_TREES, old="if not _stays(path.count(b\"/\"), target):", new="if False:",
            says="a link may lead out",
        ),
        Mutant(
            id="F10-modes", file=_TREES, old="os.fchmod(fd, member.mode & 0o777)\n                os.utime",
            new="os.fchmod(fd, member.mode & 0o7777)\n                os.utime",
            says="set-id bits are kept",
        ),
        Mutant(
            id="F10-auto-run", file=_TREES, old="if not self._with_auto_run and runs(path):", new="if False:",
            says="what a host runs by itself is made",
        ),
        Mutant(
            id="F10-limit", file=_TREES, old="if self._size > self._size_limit:", new="if False:",
            says="an archive may be as large as it likes",
        ),
    ),
)  # fmt: skip
