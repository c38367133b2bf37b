"""Which socket to speak to. The socket is the identity: there is one per principal, and who may use it is its group.

Order: the principal asked for; the path in OPENSAFE_SOCKET; the preferred principal; the first that may be used.
"""

import os
import pathlib
from collections.abc import Mapping
from typing import Final

from opensafe.errors import Unavailable

SOCKET_VARIABLE: Final = "OPENSAFE_SOCKET"
RUN: Final = pathlib.Path("/run/opensafe")
#: sun_path holds 108 bytes with the terminating NUL.
MAX_PATH_BYTES: Final = 107


def find_socket(
    principal: str | None = None,
    *,
    prefer: str = "default",
    environment: Mapping[str, str] = os.environ,
    run: pathlib.Path = RUN,
) -> pathlib.Path:
    """The socket to connect to.

    Raises Unavailable where none may be used; the message says what was looked for.
    """
    sockets = run / "principals"
    if principal is not None:
        return sockets / principal / "opensafe.sock"
    if named := environment.get(SOCKET_VARIABLE):
        return pathlib.Path(named)
    usable = [path for path in _candidates(sockets) if os.access(path, os.R_OK | os.W_OK)]
    if not usable:
        raise Unavailable(
            f"no socket that may be used lies below {sockets}",
            remedy=f"Start the daemon with `opensafe up`, join a principal's group, or set {SOCKET_VARIABLE}.",
        )
    return min(usable, key=lambda path: (path.parent.name != prefer, path.parent.name))


def _candidates(sockets: pathlib.Path) -> list[pathlib.Path]:
    try:
        names = os.listdir(sockets)
    except OSError:
        return []
    return [sockets / name / "opensafe.sock" for name in names]
