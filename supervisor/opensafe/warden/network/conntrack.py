"""Forgetting a guest's tracked connections, which would count against whoever has its address next.

ctnetlink with a filter of the source address (linux/netfilter/nfnetlink_conntrack.h, Linux 5.9), in the network
namespace of the calling thread.
"""

import errno
import ipaddress
import socket
import struct
from typing import Final

from . import netlink

_DELETE: Final = 1 << 8 | 2  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE
_NESTED: Final = 0x8000
_TUPLE_ORIG: Final = 1
_TUPLE_IP: Final = 1
_IP_V4_SRC: Final = 1
_FILTER: Final = 25
_FILTER_ORIG_FLAGS: Final = 1
_BY_SOURCE: Final = 1
_DEADLINE_S: Final = 5.0


def forget(source: str) -> None:
    """Forget all from this IPv4 address. Raises OSError."""
    address = netlink.attribute(_IP_V4_SRC, ipaddress.IPv4Address(source).packed)
    wanted = netlink.attribute(_TUPLE_ORIG | _NESTED, netlink.attribute(_TUPLE_IP | _NESTED, address))
    wanted += netlink.attribute(_FILTER | _NESTED, netlink.attribute(_FILTER_ORIG_FLAGS, struct.pack("=I", _BY_SOURCE)))
    body = netlink.FAMILY.pack(socket.AF_INET, 0, 0) + wanted
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, netlink.NETFILTER) as asked:
        asked.settimeout(_DEADLINE_S)
        asked.bind((0, 0))
        asked.send(netlink.message(_DELETE, netlink.ACKNOWLEDGE, body))
        netlink.check(asked.recv(4096), but=errno.ENOENT)  # there were none
