"""Oracle 3 where there is a way out: what comes over the gateway's link to the host, whoever it says it is from.

From there may come questions to the resolver, and what is asked before them: who has its address (RFC 826).
"""

import asyncio
import collections
import contextlib
import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final, Self

from .oracles import Finding, Oracle

_KEPT_MAX: Final = 1000
_HEAD_MAX: Final = 256
_ETH_P_ALL, _ETH_P_IP, _ETH_P_ARP = 0x0003, 0x0800, 0x0806
_PACKET_OUTGOING: Final = 4
#: Of an IPv4 header (RFC 791), and of ARP's for one.
_FRAGMENT_AT, _PROTOCOL_AT, _SOURCE_AT, _DESTINATION_AT, _LEAST = 6, 9, 12, 16, 20
_ASKING_AT, _ASKED_AT = 14, 24
_OFFSET: Final = 0x1FFF
_DNS: Final = 53
_UDP: Final = 17


class Uplink:
    """Frames that come over a link. Made by `open`."""

    def __init__(self, interface: str, network: ipaddress.IPv4Network) -> None:
        """interface: the host's end. network: the link's, of which the first address is the host's."""
        self._host, self._gateway = network[1].packed, network[2].packed
        self._frames: collections.deque[str] = collections.deque(maxlen=_KEPT_MAX)
        self._capturing = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 0)
        self._capturing.bind((interface, _ETH_P_ALL))

    @classmethod
    @contextlib.contextmanager
    def open(cls, interface: str, network: ipaddress.IPv4Network) -> Iterator[Self]:
        """Look at it from now on. Raises OSError without CAP_NET_RAW."""
        made = cls(interface, network)
        loop = asyncio.get_running_loop()
        loop.add_reader(made._capturing, made._drain)
        try:
            yield made
        finally:
            loop.remove_reader(made._capturing)
            made._capturing.close()

    def look(self) -> Iterable[Finding]:
        """What came since the last look."""
        self._drain()
        while self._frames:
            yield Finding(oracle=Oracle.FRAME, what=self._frames.popleft())

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                head, (_, kind, way, *_) = self._capturing.recvfrom(_HEAD_MAX)
                if way != _PACKET_OUTGOING and not self._expected(kind, head):
                    self._frames.append(f"{_told(kind, head)} over the gateway")

    def _expected(self, kind: int, head: bytes) -> bool:
        if kind == _ETH_P_ARP:
            return head[_ASKING_AT : _ASKING_AT + 4] == self._gateway and head[_ASKED_AT : _ASKED_AT + 4] == self._host
        addresses = self._gateway + self._host
        return kind == _ETH_P_IP and head[_SOURCE_AT:_LEAST] == addresses and _service(head) == (_UDP, _DNS)


def _service(head: bytes) -> tuple[int, int]:
    """Protocol and port that an IPv4 packet is for. Port 0: it says none, as all but the first part of one."""
    ports_at = (head[0] & 0xF) * 4
    fragment = int.from_bytes(head[_FRAGMENT_AT : _FRAGMENT_AT + 2], "big") & _OFFSET
    if fragment or ports_at < _LEAST or len(head) < ports_at + 4:
        return head[_PROTOCOL_AT], 0
    return head[_PROTOCOL_AT], struct.unpack_from(">H", head, ports_at + 2)[0]


def _told(kind: int, head: bytes) -> str:
    if kind != _ETH_P_IP or len(head) < _LEAST:
        return f"a frame of type {kind:#06x}"
    protocol, port = _service(head)
    source, destination = (str(ipaddress.IPv4Address(head[at : at + 4])) for at in (_SOURCE_AT, _DESTINATION_AT))
    return f"protocol {protocol} from {source} to {destination}:{port}"
