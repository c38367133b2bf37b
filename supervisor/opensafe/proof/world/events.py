"""What the world's servers and its packet capture saw: the evidence on which a verdict rests.

Everything here was seen from outside of the sandbox; nothing that a guest says of itself becomes an event.
"""

import enum
import ipaddress
import struct
from typing import Final

import msgspec

#: Bytes of one read, datagram or packet that are kept.
DATA_MAX: Final = 4096
HEAD_MAX: Final = 256

_ETHERNET: Final = 14
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_ARP: Final = 0x0806
_WITH_PORTS: Final = {6: "tcp", 17: "udp", 132: "sctp"}
_OTHERS: Final = {1: "icmp", 58: "icmpv6"}
_SYN: Final = 2
#: Multicast and addresses of one link (RFC 4291, section 2.4).
_NEIGHBOURS: Final = ("ff02:", "fe80:")
#: ICMPv6, also behind the option by which routers hear of groups (RFC 3810).
_FINDS: Final = ("icmpv6", "0")


class Kind(enum.StrEnum):
    """What happened at a server."""

    ACCEPT = "accept"
    DATA = "data"
    CLOSED = "closed"
    HELLO = "hello"
    REQUEST = "request"
    QUESTION = "question"
    DATAGRAM = "datagram"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a server saw. at_us: UTC microseconds. source and target: ADDRESS:PORT of client and server.

    name: the SNI of a HELLO ("" without), the Host of a REQUEST as it was sent, the name of a QUESTION. data: what was
    read, cut at DATA_MAX; of a REQUEST its request line. size: how much it was before; of CLOSED how much was read over
    the whole connection. transport: tcp or udp.
    """

    at_us: int
    kind: Kind
    source: str
    target: str
    transport: str = "tcp"
    name: str = ""
    data: bytes = b""
    size: int = 0

    @property
    def client(self) -> str:
        """The client's address, without its port."""
        return self.source.rpartition(":")[0]

    @property
    def address(self) -> str:
        """The server's address, without its port."""
        return self.target.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.target.rpartition(":")[2])


class Packet(msgspec.Struct, frozen=True, kw_only=True):
    """One frame at one of the world's links. outgoing: it was the world that sent it.

    protocol: tcp, udp, icmp, icmpv6, arp, or the number of another. Ports are 0 where there are none. flags: of TCP.
    head: the frame's first HEAD_MAX bytes. size: the whole frame's.
    """

    link: str
    outgoing: bool
    protocol: str
    source: str = ""
    target: str = ""
    source_port: int = 0
    port: int = 0
    flags: int = 0
    size: int = 0
    head: bytes = b""

    @property
    def tells(self) -> bool:
        """Whether it opens something or carries a byte.

        What remains kernels send by themselves: ends and acknowledgements of TCP, the search for neighbours and groups.
        """
        if self.protocol == "tcp" and self.port:
            return bool(self.flags & _SYN) or _carried(self.head) > 0
        return self.protocol != "arp" and not (self.protocol in _FINDS and self.target.startswith(_NEIGHBOURS))


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """The packets so far, of each flow the first ones since each reading.

    seen: how many passed. lost: how many are not accounted for.
    """

    packets: tuple[Packet, ...]
    seen: int
    lost: int

    @property
    def whole(self) -> bool:
        """Whether the beginning of every flow is in it."""
        return not self.lost


def dissect(frame: bytes, size: int, *, link: str, outgoing: bool) -> Packet:
    """A frame's headers. One too short for what it claims to be keeps what could be read."""
    head = frame[:HEAD_MAX]
    protocol, source, target, rest = _network(frame)
    ports = (0, 0)
    flags = 0
    if protocol in _WITH_PORTS.values() and len(rest) >= 4:
        ports = struct.unpack_from("!HH", rest)
        flags = rest[13] if protocol == "tcp" and len(rest) > 13 else 0
    return Packet(
        link=link,
        outgoing=outgoing,
        protocol=protocol,
        source=source,
        target=target,
        source_port=ports[0],
        port=ports[1],
        flags=flags,
        size=size,
        head=head,
    )


def _carried(frame: bytes) -> int:
    """Bytes in a TCP segment whose frame begins so (RFC 9293, section 3.1); one of a header cut short counts as one."""
    ip = frame[_ETHERNET:]
    if ip[0] >> 4 == 4:
        header, length = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big")
    else:
        header, length = 40, 40 + int.from_bytes(ip[4:6], "big")
    return length - header - (ip[header + 12] >> 4) * 4 if len(ip) > header + 12 else 1


def _network(frame: bytes) -> tuple[str, str, str, bytes]:
    """Protocol, source, target, and what follows the IP header (first fragments only; IPv6 without extensions)."""
    kind = int.from_bytes(frame[12:_ETHERNET], "big")
    body = frame[_ETHERNET:]
    if kind == _IPV4 and len(body) >= 20:
        number, length = body[9], (body[0] & 15) * 4
        fragment = int.from_bytes(body[6:8], "big") & 0x1FFF
        source, target = ipaddress.IPv4Address(body[12:16]), ipaddress.IPv4Address(body[16:20])
        return _name(number), str(source), str(target), b"" if fragment else body[length:]
    if kind == _IPV6 and len(body) >= 40:
        six = ipaddress.IPv6Address(body[8:24]), ipaddress.IPv6Address(body[24:40])
        return _name(body[6]), str(six[0]), str(six[1]), body[40:]
    return "arp" if kind == _ARP else f"ether-{kind:04x}", "", "", b""


def _name(number: int) -> str:
    return _WITH_PORTS.get(number) or _OTHERS.get(number) or str(number)
