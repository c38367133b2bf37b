"""What each tool of a server said of itself when it was first seen, or approved since: one small file a server.

The file is the user's, so it guards against servers and not against what runs as that user; the pins of the site's
tool manifest are signed, and take its place.
"""

import contextlib
import fcntl
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from opensafe.errors import InvalidArgument, LimitExceeded

#: Tools that one server may have had over time.
MAX_PINS: Final = 1024
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tools: dict[str, str] = {}


def directory() -> pathlib.Path:
    """Where the user's pins are kept."""
    state = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local/state"
    return pathlib.Path(state) / "opensafe/mcp"


class Pins:
    """The pins of one server. Every method reads the file anew: several proxies may stand before one server."""

    def __init__(self, server: str, place: pathlib.Path) -> None:
        self._path = place / f"{server}.json"

    def read(self) -> dict[str, str]:
        """Digest by tool. Raises InvalidArgument for a file that is none."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InvalidArgument(f"the pins can't be read: {error.strerror}", value=self._path) from error
        try:
            return msgspec.json.decode(content, type=_File).tools
        except msgspec.MsgspecError as error:
            raise InvalidArgument(
                f"the pins are damaged: {error}",
                value=self._path,
                remedy="Remove the file and look at the server's tools anew.",
            ) from error

    def first_sight(self, shown: Mapping[str, str]) -> dict[str, str]:
        """All pins, after those of `shown` that are new were added. Raises LimitExceeded, InvalidArgument."""
        with self._changing() as pins:
            for tool, digest in shown.items():
                pins.setdefault(tool, digest)
            return dict(pins)

    def approve(self, tool: str, digest: str) -> None:
        """Pin exactly this digest, which somebody has looked at."""
        if not _DIGEST.fullmatch(digest):
            raise InvalidArgument("this is no digest", value=digest, remedy="Take it from the proxy's message.")
        with self._changing() as pins:
            pins[tool] = digest

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path.with_suffix(".lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                pins = self.read()
                before = dict(pins)
                yield pins
                if len(pins) > MAX_PINS:
                    raise LimitExceeded("the server has shown too many tools", value=len(pins), limit=MAX_PINS)
                if pins != before:
                    new = self._path.with_suffix(".new")
                    new.write_bytes(msgspec.json.format(msgspec.json.encode(_File(dict(sorted(pins.items()))))))
                    new.replace(self._path)
        except OSError as error:
            raise InvalidArgument(f"the pins can't be kept: {error.strerror}", value=self._path) from error
