"""Refusals of the gateway, as its rules tell them: NFLOG over netlink (linux/netfilter/nfnetlink_log.h).

What a message carries is the head of a guest's packet, so its bytes are the guest's choice. Only fixed offsets of the
IPv4, TCP and UDP headers are read, and whoever guesses at addresses can't make anything here grow.
"""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec

from . import netlink

_NETLINK_NETFILTER: Final = 12
_SUBSYSTEM: Final = 4  # NFNL_SUBSYS_ULOG
_MSG_PACKET: Final = _SUBSYSTEM << 8
_MSG_CONFIG: Final = _SUBSYSTEM << 8 | 1
_CFG_CMD: Final = 1
_CFG_MODE: Final = 2
_CFG_QTHRESH: Final = 5
_CMD_BIND: Final = 1
_COPY_PACKET: Final = 2
_PAYLOAD: Final = 9
_TYPE_MASK: Final = 0x3FFF

_FAMILY: Final = struct.Struct("!BBH")
#: Enough for an IPv4 header with options and the ports behind it.
SNAP: Final = 64
_BUFFER: Final = 1 << 16
_DEADLINE_S: Final = 5.0
#: Kinds of refusals that are counted apart, and refusals that wait to be taken.
_KINDS: Final = 4096
_WAITING: Final = 1024
_PROTOCOLS: Final = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_ICMP: "icmp"}


class Refusal(msgspec.Struct, frozen=True):
    """Whose packet, its protocol (tcp, udp, icmp or a number), where it was to go; port 0 where it has none."""

    guest: str
    protocol: str
    address: str
    port: int


def listen(group: int) -> socket.socket:
    """A socket on which the group of this thread's namespace is told, each packet at once. Raises OSError."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    try:
        made.settimeout(_DEADLINE_S)
        made.bind((0, 0))
        for kind, value in (
            (_CFG_CMD, struct.pack("=B", _CMD_BIND)),
            (_CFG_MODE, struct.pack("!IBx", SNAP, _COPY_PACKET)),
            (_CFG_QTHRESH, struct.pack("!I", 1)),
        ):
            made.send(_config(group, kind, value))
            netlink.check(made.recv(_BUFFER))
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class Refusals:
    """Reads such a socket, counts what is told, and keeps the latest for whoever iterates."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        #: By kind; those beyond the first 4096 kinds are only in `uncounted`.
        self.counts: Counter[Refusal] = Counter()
        self.uncounted = 0
        self._waiting: asyncio.Queue[Refusal] = asyncio.Queue(_WAITING)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(told, self._read)

    def close(self) -> None:
        """Idempotent."""
        if self._told.fileno() >= 0:
            self._loop.remove_reader(self._told)
            self._told.close()

    async def latest(self) -> AsyncIterator[Refusal]:
        """One after the other; what nobody takes in time is counted and not kept. Never ends."""
        while True:
            yield await self._waiting.get()

    def _read(self) -> None:
        try:
            packet = self._told.recv(_BUFFER)
        except OSError:  # nothing there, or ENOBUFS: some were lost, which the rules' own limit also does
            return
        for refusal in parse(packet):
            if refusal in self.counts or len(self.counts) < _KINDS:
                self.counts[refusal] += 1
            else:
                self.uncounted += 1
            if not self._waiting.full():
                self._waiting.put_nowait(refusal)


def parse(packet: bytes) -> Iterator[Refusal]:
    """The refusals in one datagram of the kernel's. What has not their form is left out; never raises."""
    for kind, body in netlink.pieces(packet):
        if kind != _MSG_PACKET:
            continue
        for attribute, payload in netlink.pieces(body[_FAMILY.size :], netlink.ATTRIBUTE):
            if attribute & _TYPE_MASK == _PAYLOAD and (found := _refusal(payload)) is not None:
                yield found


def _refusal(packet: bytes) -> Refusal | None:
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
    )


def _config(group: int, kind: int, value: bytes) -> bytes:
    body = _FAMILY.pack(0, 0, group) + netlink.attribute(kind, value)
    return netlink.message(_MSG_CONFIG, netlink.ACKNOWLEDGE, body)
