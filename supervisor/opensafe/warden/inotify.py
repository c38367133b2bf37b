"""Waiting for a file to be put in place: inotify(7) on its directory.

Seen are a finished write (IN_CLOSE_WRITE) and a rename into place (IN_MOVED_TO) of one name. The events carry no
content and are only a reason to look.
"""

import ctypes
import os
import pathlib
import struct
from typing import Final

from .waiting import readable

_IN_CLOSE_WRITE: Final = 0x0000_0008
_IN_IGNORED: Final = 0x0000_8000
_IN_MOVED_TO: Final = 0x0000_0080
_IN_ONLYDIR: Final = 0x0100_0000
_IN_Q_OVERFLOW: Final = 0x0000_4000
_EVENT: Final = struct.Struct("iIII")  # wd, mask, cookie, len; then the name, padded with NUL
_BUFFER: Final = 64 * 1024

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Watch:
    """A watch on the name of `path`, there or not. Its directory must exist."""

    def __init__(self, path: pathlib.Path) -> None:
        """Raises OSError."""
        self._name = os.fsencode(path.name)
        self._descriptor = _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), path)
        try:
            directory = ctypes.c_char_p(os.fsencode(path.parent))
            mask = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_ONLYDIR
            _checked(_libc.inotify_add_watch(self._descriptor, directory, mask), path.parent)
        except OSError:
            self.close()
            raise

    async def changed(self) -> bool:
        """Return when the file was put in place; False where its directory is gone, after which nothing comes."""
        while True:
            await readable(self._descriptor)
            try:
                events = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                continue
            named = gone = False
            while events:
                _, mask, _, length = _EVENT.unpack_from(events)
                name = events[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
                events = events[_EVENT.size + length :]
                named |= name == self._name or bool(mask & _IN_Q_OVERFLOW)
                gone |= bool(mask & _IN_IGNORED)
            if named or gone:
                return not gone

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


def _checked(result: int, path: pathlib.Path) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(path))
    return result
