"""The users of an image, as its passwd(5) and group(5) name them.

Read from the image on the host and never from the guest, whose word on who somebody is would be the program's own. The
image is a stranger's work: only regular files that no link leads to are read, so much of them, and lines that are not
well formed name nobody.
"""

import functools
import os
import pathlib
import re
import stat
from collections.abc import Iterator
from typing import Final

from ...errors import InvalidArgument, UnknownUser, WardenRefused
from ...model.sandbox import User
from . import layout

_FILE_MAX: Final = 1 << 20
#: As native/guest/run_options.h.
_GROUPS_MAX: Final = 32
_SHOWN: Final = 20
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_HOME: Final = re.compile(r"/[!-9;-~]{0,255}")
#: The kernel reads -1 as "leave unchanged".
_ID_MAX: Final = (1 << 32) - 2


def find(rootfs: pathlib.Path, image_digest: str, asked: str) -> User | None:
    """The user of that name or, where none is called so, number. None for the sandbox's own.

    Raises UnknownUser, and InvalidArgument for the uid that the runners have.
    """
    users = _users(rootfs, image_digest)
    found = next((user for user in users if user.name == asked), None) or next(
        (user for user in users if str(user.uid) == asked), None
    )
    if found is None:
        if asked == str(layout.COMMAND_UID):
            return None
        names = [user.name for user in users]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise UnknownUser(
            "the image has no such user",
            value=asked,
            limit=f"{', '.join(names[:_SHOWN])}{more}" or "the image names none",
            remedy="Use one of these by name or number, or none for the sandbox's own.",
        )
    if found.uid == layout.SUPERVISOR_UID:
        raise InvalidArgument(
            "no program runs under the uid of the runners", value=f"{asked} ({found.uid})", remedy="Use another user."
        )
    return found


def check(rootfs: pathlib.Path, image_digest: str, user: User, granted: tuple[str, ...]) -> None:
    """A user as a decision has it: must be the image's, and among those granted. Raises WardenRefused, RequestError."""
    if user.granted_as not in granted:
        raise WardenRefused("the decision does not grant this user", value=user.granted_as, limit=", ".join(granted))
    if find(rootfs, image_digest, user.name) != user:
        raise WardenRefused("the image's user of this name is another one", value=user.name, limit=f"uid {user.uid}")


@functools.lru_cache(maxsize=64)
def _users(rootfs: pathlib.Path, _image_digest: str) -> tuple[User, ...]:
    """In the file's order, of which the first of a name or number counts."""
    groups: dict[str, set[int]] = {}
    for name, _, number, members in _lines(rootfs, "group", 4):
        if _NAME.fullmatch(name) and (gid := _id(number)) is not None:
            for member in members.split(","):
                groups.setdefault(member, set()).add(gid)
    users = []
    for name, _, number, group, _, home, _ in _lines(rootfs, "passwd", 7):
        uid, gid = _id(number), _id(group)
        if not _NAME.fullmatch(name) or uid is None or gid is None:
            continue
        supplementary = tuple(sorted(groups.get(name, set()) - {gid}))[:_GROUPS_MAX]
        place = home if _HOME.fullmatch(home) else "/"
        users.append(User(name=name, uid=uid, gid=gid, groups=supplementary, home=place))
    return tuple(users)


def _id(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _ID_MAX else None


def _lines(rootfs: pathlib.Path, name: str, fields: int) -> Iterator[list[str]]:
    for line in _read(rootfs, name).decode("utf-8", "replace").split("\n"):
        found = line.split(":")
        if len(found) == fields:
            yield found


def _read(rootfs: pathlib.Path, name: str) -> bytes:
    """`/etc/NAME` of the image, or nothing where it has none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened: list[int] = []
    try:
        opened.append(os.open(rootfs, flags | os.O_DIRECTORY))
        opened.append(os.open("etc", flags | os.O_DIRECTORY, dir_fd=opened[-1]))
        opened.append(os.open(name, flags, dir_fd=opened[-1]))
        return os.read(opened[-1], _FILE_MAX) if stat.S_ISREG(os.fstat(opened[-1]).st_mode) else b""
    except OSError:
        return b""
    finally:
        for descriptor in opened:
            os.close(descriptor)
