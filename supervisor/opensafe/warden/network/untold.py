"""How many refusals the gateway's rules did not tell, because they came too fast: a named counter of nftables.

nf_tables over netlink (linux/netfilter/nf_tables.h), on a socket of the gateway's namespace. The kernel answers in the
call that asks, so that nobody waits.
"""

import socket
import struct
from typing import Final

from . import netlink

_TAKE: Final = 10 << 8 | 21  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETOBJ_RESET
_INET: Final = 1  # NFPROTO_INET
_TABLE: Final = 1
_NAME: Final = 2
_TYPE: Final = 3
_DATA: Final = 4
_COUNTER: Final = 1  # NFT_OBJECT_COUNTER
_PACKETS: Final = 2
_BUFFER: Final = 4096
_DEADLINE_S: Final = 5.0


class Untold:
    """Takes what a counter counted. Made in the namespace that has it."""

    def __init__(self, table: str, counter: str) -> None:
        """Raises OSError."""
        asked = netlink.attribute(_TABLE, table.encode() + b"\0") + netlink.attribute(_NAME, counter.encode() + b"\0")
        body = netlink.FAMILY.pack(_INET, 0, 0) + asked + netlink.attribute(_TYPE, struct.pack("!I", _COUNTER))
        self._question = netlink.message(_TAKE, 0, body)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, netlink.NETFILTER)
        self._socket.settimeout(_DEADLINE_S)
        try:
            self._socket.bind((0, 0))
        except BaseException:
            self._socket.close()
            raise

    def take(self) -> int:
        """How many packets it counted since the last call. Raises OSError."""
        self._socket.send(self._question)
        answer = self._socket.recv(_BUFFER)
        netlink.check(answer)
        for _, body in netlink.pieces(answer):
            data = netlink.attributes(body[netlink.FAMILY.size :]).get(_DATA, b"")
            (packets,) = struct.unpack("!Q", netlink.attributes(data)[_PACKETS])
            return int(packets)
        return 0

    def close(self) -> None:
        """Idempotent."""
        self._socket.close()
