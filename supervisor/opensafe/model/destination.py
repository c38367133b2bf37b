"""Where checkpoints are shipped: `file:/path`, `syslog:/dev/log` or `https://host/path`, as the settings have it."""

import pathlib
import re
import urllib.parse
from typing import Final

import msgspec

_MAX: Final = 2048
_PRINTABLE: Final = re.compile(r"[!-~]+")
#: sun_path of unix(7), with its end.
_SOCKET_MAX: Final = 107


class File(msgspec.Struct, frozen=True):
    """A file that holds the last checkpoint."""

    path: str

    def __str__(self) -> str:
        return f"file:{self.path}"


class Syslog(msgspec.Struct, frozen=True):
    """A syslog daemon's datagram socket; each checkpoint is a message."""

    path: str

    def __str__(self) -> str:
        return f"syslog:{self.path}"


class Https(msgspec.Struct, frozen=True):
    """A server that takes each checkpoint as the body of a POST. target: path and query, which may hold a secret."""

    host: str
    port: int
    target: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.target.partition('?')[0]}"


Destination = File | Syslog | Https


def parse(text: str) -> Destination:
    """Read one. Raises ValueError, whose text says what is allowed."""
    if len(text) > _MAX or not _PRINTABLE.fullmatch(text):
        raise ValueError(f"a destination is at most {_MAX} printable ASCII characters without a space")
    scheme, _, rest = text.partition(":")
    if scheme == "file":
        return File(_path(rest))
    if scheme == "syslog":
        if len(_path(rest)) > _SOCKET_MAX:
            raise ValueError(f"a socket's path has at most {_SOCKET_MAX} characters")
        return Syslog(rest)
    if scheme == "https":
        return _https(text)
    raise ValueError("a destination is file:/path, syslog:/path or https://host/path")


def _path(text: str) -> str:
    path = pathlib.PurePosixPath(text)
    if not path.is_absolute() or str(path) != text or ".." in path.parts or not path.name:
        raise ValueError("the path is absolute and plain, as in file:/srv/opensafe/checkpoint")
    return text


def _https(text: str) -> Https:
    url = urllib.parse.urlsplit(text)
    if not url.hostname or url.username is not None or url.password is not None or url.fragment or "#" in text:
        raise ValueError("the URL has a host, and neither user nor fragment")
    return Https(url.hostname, url.port or 443, f"{url.path or '/'}{f'?{url.query}' if url.query else ''}")
