"""Refusals of the gateway, as its rules tell them: NFLOG over netlink (linux/netfilter/nfnetlink_log.h).

What a message carries is the head of a guest's packet, so its bytes are the guest's choice. Only fixed offsets of the
IPv4, TCP and UDP headers are read, and whoever guesses at addresses can't make anything here grow.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec

from . import netlink

_SUBSYSTEM: Final = 4  # NFNL_SUBSYS_ULOG
_MSG_PACKET: Final = _SUBSYSTEM << 8
_MSG_CONFIG: Final = _SUBSYSTEM << 8 | 1
_CFG_CMD: Final = 1
_CFG_MODE: Final = 2
_CFG_QTHRESH: Final = 5
_CFG_FLAGS: Final = 6
_CMD_BIND: Final = 1
_COPY_PACKET: Final = 2
_NUMBERED: Final = 1  # NFULNL_CFG_F_SEQ
_CAME_BY: Final = 4
_PAYLOAD: Final = 9
_WHY: Final = 10
_SEQUENCE: Final = 12

#: Enough for an IPv4 header with options and the ports behind it.
SNAP: Final = 64
_BUFFER: Final = 1 << 16
_DEADLINE_S: Final = 5.0
#: Refusals that wait to be taken.
_WAITING: Final = 1024
#: Datagrams that are read before others have their turn.
_TURN: Final = 64
#: Sequence numbers begin anew after this one.
_LAST: Final = 0xFFFFFFFF
_PROTOCOLS: Final = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_ICMP: "icmp"}


class Refusal(msgspec.Struct, frozen=True):
    """A packet: whose it says it is, its protocol (tcp, udp, icmp or a number), where it was to go; port 0 where it has
    none. why: as the rules name it. came_by: the number of the gateway's interface. sequence: of what is told, by which
    gaps show.
    """

    source: str
    protocol: str
    address: str
    port: int
    why: str = ""
    came_by: int = 0
    sequence: int | None = None


def listen(group: int) -> socket.socket:
    """A socket on which the group of this thread's namespace is told, each packet at once. Raises OSError."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, netlink.NETFILTER)
    try:
        made.settimeout(_DEADLINE_S)
        made.bind((0, 0))
        for kind, value in (
            (_CFG_CMD, struct.pack("=B", _CMD_BIND)),
            (_CFG_MODE, struct.pack("!IBx", SNAP, _COPY_PACKET)),
            (_CFG_QTHRESH, struct.pack("!I", 1)),
            (_CFG_FLAGS, struct.pack("!H", _NUMBERED)),
        ):
            made.send(_config(group, kind, value))
            netlink.check(made.recv(_BUFFER))
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class Refusals:
    """Reads such a socket and keeps what it tells for whoever iterates."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._next = 0
        self._missed = 0
        self._waiting: asyncio.Queue[Refusal] = asyncio.Queue(_WAITING)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(told, self._read)

    def close(self) -> None:
        """Idempotent."""
        if self._told.fileno() >= 0:
            self._loop.remove_reader(self._told)
            self._told.close()

    async def latest(self) -> AsyncIterator[Refusal]:
        """One after the other, for one reader; what is not taken in time is missed. Never ends."""
        while True:
            yield await self._waiting.get()

    def take_missed(self) -> int:
        """How many were told and never read, since the last call."""
        missed, self._missed = self._missed, 0
        return missed

    def _read(self) -> None:
        for _ in range(_TURN):
            try:
                packet = self._told.recv(_BUFFER)
            except BlockingIOError:
                return
            except OSError:  # ENOBUFS: some were lost, which their numbers show
                continue
            for refusal in parse(packet):
                if refusal.sequence is not None:
                    self._missed += (refusal.sequence - self._next) & _LAST
                    self._next = (refusal.sequence + 1) & _LAST
                if self._waiting.full():
                    self._missed += 1
                else:
                    self._waiting.put_nowait(refusal)


def parse(packet: bytes) -> Iterator[Refusal]:
    """The refusals in one datagram of the kernel's. What has not their form is left out; never raises."""
    for kind, body in netlink.pieces(packet):
        if kind != _MSG_PACKET:
            continue
        told = netlink.attributes(body[netlink.FAMILY.size :])
        why = told.get(_WHY, b"").rstrip(b"\0").decode("ascii", "replace")
        came_by = int.from_bytes(told.get(_CAME_BY, b"")[:4], "big")
        sequence = int.from_bytes(told[_SEQUENCE][:4], "big") if _SEQUENCE in told else None
        if (found := _refusal(told.get(_PAYLOAD, b""), why, came_by, sequence)) is not None:
            yield found


def _refusal(packet: bytes, why: str, came_by: int, sequence: int | None) -> Refusal | None:
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return None
    length, number = (packet[0] & 0xF) * 4, packet[9]
    first = not int.from_bytes(packet[6:8], "big") & 0x1FFF  # later fragments have no ports
    ports = packet[length : length + 4] if length >= 20 and first else b""
    known = number in (socket.IPPROTO_TCP, socket.IPPROTO_UDP) and len(ports) == 4
    return Refusal(
        socket.inet_ntoa(packet[12:16]),
        _PROTOCOLS.get(number, str(number)),
        socket.inet_ntoa(packet[16:20]),
        int.from_bytes(ports[2:], "big") if known else 0,
        why,
        came_by,
        sequence,
    )


def _config(group: int, kind: int, value: bytes) -> bytes:
    body = netlink.FAMILY.pack(0, 0, group) + netlink.attribute(kind, value)
    return netlink.message(_MSG_CONFIG, netlink.ACKNOWLEDGE, body)
