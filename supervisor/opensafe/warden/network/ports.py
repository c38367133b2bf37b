"""The guest's end of a link as gVisor's own stack takes it: a packet socket that carries frames."""

import contextlib
import socket
from typing import Final

import msgspec
from pyroute2 import IPRoute

from .links import GUEST, Link

_ETH_P_ALL: Final = 3
# linux/if_packet.h, asm-generic/socket.h
_SOL_PACKET: Final = 263
_PACKET_VNET_HDR: Final = 15
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
#: Bytes that may wait in each direction: the default would drop at some hundred packets.
_BUFFER: Final = 4 << 20
#: Largest segment that is handed over whole, to be cut by the kernel.
_GSO: Final = 65536


class Port(msgspec.Struct, frozen=True):
    """An open port, closed by whoever opened it. mac: six bytes. gso: bytes, as above."""

    link: Link
    frames: socket.socket
    index: int
    mtu: int
    mac: bytes
    gso: int = _GSO

    def close(self) -> None:
        """Close this process's descriptor; the sentry has its own."""
        self.frames.close()


def open_port(link: Link) -> Port:
    """Open it, in the guest's namespace. Raises OSError."""
    with contextlib.ExitStack() as undo, IPRoute() as route:
        (index,) = route.link_lookup(ifname=GUEST)
        (found,) = route.link("get", index=index)
        frames = undo.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0))
        frames.bind((GUEST, _ETH_P_ALL))
        frames.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        for option in (_SO_RCVBUFFORCE, _SO_SNDBUFFORCE):
            frames.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        mac = bytes.fromhex(found.get_attr("IFLA_ADDRESS").replace(":", ""))
        undo.pop_all()
        return Port(link, frames, index, int(found.get_attr("IFLA_MTU")), mac)
