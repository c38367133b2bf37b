"""Ending TCP connections from outside: SOCK_DIAG to find them, SOCK_DESTROY to end them (sock_diag(7)).

Whoever holds the other end sees a reset at once. Both act on the network namespace of the calling thread.
"""

import errno
import ipaddress
import socket
import struct
from collections.abc import Iterator
from typing import Final

from . import netlink

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_SOCK_DESTROY: Final = 21
#: All but LISTEN (10), TIME_WAIT (6) and CLOSE (7), which nobody waits in.
_STATES: Final = 0xFFFFFFFF & ~(1 << 10 | 1 << 6 | 1 << 7)
#: inet_diag_req_v2 without its socket id, and inet_diag_sockid as far as it is read here.
_REQUEST: Final = struct.Struct("=BBBxI")
_SOCKID: Final = struct.Struct("!HH4s12x4s12x")
_SOCKID_SIZE: Final = 48
_FOUND_HEAD: Final = 4
_BUFFER: Final = 1 << 18
_DEADLINE_S: Final = 5.0


def destroy(remote: str | None, port: int | None = None) -> int:
    """End the connections with this IPv4 peer, or the one from its port; without a peer, with every one but loopback.

    Returns how many. Raises OSError.
    """
    wanted = ipaddress.IPv4Address(remote).packed if remote is not None else None
    ended = 0
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as diag:
        diag.settimeout(_DEADLINE_S)
        diag.bind((0, 0))
        for sockid in list(_connections(diag)):
            _, theirs, _, address = _SOCKID.unpack(sockid[: _SOCKID.size])
            if address[0] == 127 or (wanted is not None and address != wanted) or (port is not None and theirs != port):
                continue
            ended += _end(diag, sockid)
    return ended


def _connections(diag: socket.socket) -> Iterator[bytes]:
    diag.send(_message(_SOCK_DIAG_BY_FAMILY, netlink.DUMP, bytes(_SOCKID_SIZE)))
    while True:
        for kind, body in netlink.pieces(diag.recv(_BUFFER)):
            if kind == netlink.DONE:
                return
            if kind == netlink.ERROR:
                raise OSError(netlink.code(body), "sock_diag refuses to list")
            yield body[_FOUND_HEAD : _FOUND_HEAD + _SOCKID_SIZE]


def _end(diag: socket.socket, sockid: bytes) -> bool:
    diag.send(_message(_SOCK_DESTROY, netlink.ACKNOWLEDGE, sockid))
    return netlink.check(diag.recv(_BUFFER), but=errno.ENOENT)  # then it ended by itself


def _message(kind: int, flags: int, sockid: bytes) -> bytes:
    return netlink.message(kind, flags, _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _STATES) + sockid)
