"""Every packet at the world's links, whether or not a server listens: a packet that was sent leaves no doubt.

Of each flow the first packets since the last reading are kept and the rest is counted, so that bulk data leaves room,
and yet each reading tells what still passed since the one before. Where there is no room left, or the kernel had to
drop, the capture says that it is not whole.
"""

import asyncio
import collections
import socket
import struct
from typing import Final

from .events import HEAD_MAX, Capture, Packet, dissect

KEPT_MAX: Final = 50_000
KEPT_OF_FLOW: Final = 8
_RECEIVE_BUFFER: Final = 16 << 20
_ETH_P_ALL: Final = 3
_PACKET_OUTGOING: Final = 4
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_SO_RCVBUFFORCE: Final = 33


class Capturing:
    """Sockets on links of this process's namespace, read by the running loop. Raises OSError without CAP_NET_RAW."""

    def __init__(self, links: tuple[str, ...]) -> None:
        self._packets: list[Packet] = []
        self._flows: collections.Counter[tuple[str, bool, str, str, str, int, int]] = collections.Counter()
        self._seen = 0
        self._lost = 0
        self._buffer = bytearray(HEAD_MAX)
        self._sockets = {name: self._open(name) for name in links}

    def read(self) -> Capture:
        """All that passed until now."""
        for name in self._sockets:
            self._drain(name)
            told = self._sockets[name].getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            self._lost += struct.unpack("II", told)[1]  # asking sets it back to zero
        self._flows.clear()
        return Capture(packets=tuple(self._packets), seen=self._seen, lost=self._lost)

    def _open(self, name: str) -> socket.socket:
        listening = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        listening.bind((name, _ETH_P_ALL))
        asyncio.get_running_loop().add_reader(listening, self._drain, name)
        return listening

    def _drain(self, name: str) -> None:
        while True:
            try:
                size, address = self._sockets[name].recvfrom_into(self._buffer, 0, socket.MSG_TRUNC)
            except OSError:  # read empty; or the link is gone, as it is at the end
                return
            self._seen += 1
            frame = bytes(self._buffer[: min(size, HEAD_MAX)])
            packet = dissect(frame, size, link=name, outgoing=address[2] == _PACKET_OUTGOING)
            if len(self._packets) < KEPT_MAX:
                self._keep(packet)
            else:
                self._lost += 1

    def _keep(self, packet: Packet) -> None:
        flow = (
            *(packet.link, packet.outgoing, packet.protocol),
            *(packet.source, packet.target, packet.source_port, packet.port),
        )
        self._flows[flow] += 1
        if self._flows[flow] <= KEPT_OF_FLOW:
            self._packets.append(packet)
