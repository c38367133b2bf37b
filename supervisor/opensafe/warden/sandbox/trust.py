"""What a sandbox trusts beside its image's authorities where TLS ends in the gateway, and how it finds it.

The image is a stranger's work: of it only a regular file to which no link leads is read, and so much of it.
"""

import functools
import os
import pathlib
import stat
from collections.abc import Mapping
from typing import Final

from .layout import GUEST_TRUST

_AUTHORITY, _BUNDLE = "ca.pem", "ca-bundle.pem"
_FILE_MAX: Final = 4 << 20
#: Clients that can be told of one file read the bundle; Node adds to its own.
_BUNDLE_VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")
_ADDING_VARIABLE: Final = "NODE_EXTRA_CA_CERTS"


class Trust:
    """`environment`: what programs there have in theirs."""

    def __init__(self, pem: bytes, variables: Mapping[str, str], places: tuple[str, ...]) -> None:
        """pem: of the gateway's authority. variables: others of the environment. places: of an image's authorities."""
        self._pem = pem
        self._places = places
        self.environment: Final = {
            **dict.fromkeys(_BUNDLE_VARIABLES, f"{GUEST_TRUST}/{_BUNDLE}"),
            _ADDING_VARIABLE: f"{GUEST_TRUST}/{_AUTHORITY}",
            **variables,
        }

    def write(self, directory: pathlib.Path, rootfs: pathlib.Path, digest: str) -> None:
        """Make the directory that a sandbox of this image sees as GUEST_TRUST. Raises OSError."""
        directory.mkdir(mode=0o755)
        (directory / _AUTHORITY).write_bytes(self._pem)
        (directory / _BUNDLE).write_bytes(_authorities(rootfs, digest, self._places) + self._pem)


@functools.lru_cache(maxsize=16)
def _authorities(rootfs: pathlib.Path, _digest: str, places: tuple[str, ...]) -> bytes:
    """Of the image, PEM; none where it has none."""
    for place in places:
        found = _read(rootfs, pathlib.PurePath(place))
        if found:
            return found if found.endswith(b"\n") else found + b"\n"
    return b""


def _read(rootfs: pathlib.Path, place: pathlib.PurePath) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened: list[int] = []
    try:
        opened.append(os.open(rootfs, flags | os.O_DIRECTORY))
        for part in place.parent.parts:
            opened.append(os.open(part, flags | os.O_DIRECTORY, dir_fd=opened[-1]))
        opened.append(os.open(place.name, flags, dir_fd=opened[-1]))
        if not stat.S_ISREG(os.fstat(opened[-1]).st_mode):
            return b""
        with os.fdopen(opened.pop(), "rb") as file:
            return file.read(_FILE_MAX)
    except OSError:
        return b""
    finally:
        for descriptor in opened:
            os.close(descriptor)
